"""Two hundred queries that mean to be something else than words: results or none, the same ones everywhere."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.checkpointer import BaseCheckpointer, Message
from tests.checkpointer.places import ALICE, BOB, made, texts

PIECES = [
    '"', "'", "''", '"weather"', '"weather query"', "*", "weather*", "wea*", "NEAR", "NEAR(weather query, 1)", "AND",
    "OR", "NOT", "weather AND query", "weather OR nothing", "weather NOT query", "%", "%%", "_", "weat_er", "\\",
    "\\\\", "\\'", ";--", "; DROP TABLE perdure_message; --", "' OR 1=1", "' OR '1'='1", "') OR 1=1 --",
    "1 UNION SELECT * FROM perdure_message", "/* weather */", "🌦", "🌦 weather", "👩‍👩‍👧", "\0", "wea\0ther", "\ud800",
    "weather \udfff", "&", "|", "!", "weather & query", "weather | query", "!weather", "weather <-> query", "<2>",
    "weather:*", "weather:A", "+weather -query", "+weather", "-weather", "~weather", ">weather <query", "(weather)",
    "(((", ")", "@3", "weather@5", "content:weather", "words : weather", "^weather", "{weather query}", "[a]", "col:*",
    "--", "#", "`", "``weather``", "$1", "$$weather$$", "%(x)s", "%s", "?", ":1", "{0}", "\n", "\t weather \r\n query",
    "\u200b", "\u202eweather", "ß", "STRASSE", "straße", "İstanbul", "\u0131stanbul", "é", "e\u0301", "ﬁ", "天気", "天",
    "の天気", "สภาพ", "นาอ", "नमस्ते", "مرحبا", "שלום", "Ω", "Ω", "½", "²", "a_b", "a-b", "a.b", "C++", "the", "a", "0",
    "1e5", "0x41", "weather" * 400, "w" * 5000, '"' * 300, "(" * 300, "* " * 300, "weather " * 300, "é" * 300,
    "NULL", "null", "true", "\\u0041", "\x1b[31m", "\x7f", "", " ", "   \t", "weather weather", "QUERY Weather",
    "http://weather/query?a=b&c=d", "<script>weather</script>", "{\"weather\": 1}", "weather, query.", "…", "—", "€",
]  # fmt: skip
TALK = [
    "weather query", "The WEATHER in Paris: query?", "a 🌦 day", "100% sure_of_it", "path\\to\\file", "it's \"quoted\"",
    "Die Straße in İstanbul", "cafe\u0301 and café", "今日の天気はいい", "สภาพอากาศวันนี้", "नमस्ते दुनिया", "مرحبا بالعالم",
    "a_b a-b a.b C++ C#", "DROP TABLE perdure_message; --", "x AND y OR z NOT w NEAR v", "nul \0 in", "odd \ud800 text",
    "w" * 5000, "½ cup², Ω", "👩‍👩‍👧 family", "", "   ", "0 1 2 e5", "${x} %s {0} :1 ? $1", "<b>the</b> null \x1b[31m",
]  # fmt: skip


def queries() -> list[str]:
    """The pieces, and pairs of them."""
    chance = random.Random(1)
    pairs = [" ".join(chance.sample(PIECES[:110], 2)) for _ in range(200)]
    return list(dict.fromkeys([*PIECES, *pairs]))[:200]


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
async def other(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BaseCheckpointer]:
    checkpointer = made(request.param, tmp_path, request.getfixturevalue)
    yield checkpointer
    await checkpointer.arelease()


async def filled(checkpointer: BaseCheckpointer) -> BaseCheckpointer:
    await checkpointer.aput_messages(ALICE, list(map(Message.text_message, TALK[:-1])))
    await checkpointer.aput_messages({**ALICE, "thread_id": "second"}, [Message.text_message(TALK[-1])])
    for foreign in (BOB, {"thread_id": "another", "user_id": "bob"}):
        await checkpointer.aput_messages(foreign, [Message.text_message(f"{text} of bob") for text in TALK])
    return checkpointer


async def test_every_storage_answers_two_hundred_hostile_queries_alike(other: BaseCheckpointer, tmp_path: Path) -> None:
    """S2.25, S2.58: no error, no foreign row; in a thread, and across threads."""
    memory = await filled(made("memory", tmp_path, str))
    await filled(other)
    asked, found = queries(), 0
    assert len(asked) == 200
    for number, query in enumerate(asked):
        here, there = [texts(await each.alist_messages(ALICE, search=query)) for each in (memory, other)]
        assert here == there, query
        assert set(here) <= set(TALK), query
        found += 0 < len(here) < len(TALK) - 1
        if number % 4 == 0:
            assert await everywhere(memory, query) == await everywhere(other, query), query
    assert found > 50


async def everywhere(checkpointer: BaseCheckpointer, query: str) -> list[tuple[str, str]]:
    """What is found in all threads of Alice's."""
    lines = await checkpointer.asearch({"user_id": "alice"}, query)
    assert {line.message.text() for line in lines} <= set(TALK), query
    return sorted((line.thread_id, line.message.text()) for line in lines)
