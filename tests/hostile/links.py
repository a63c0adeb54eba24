"""Signed links, forged: none of them shows or decides alice's question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from perdure.core import links
from perdure.errors import PerdureError
from tests.checkpoints.places import PLACES
from tests.hostile.canary import Canary
from tests.hostile.catalogue import Hostile, register
from tests.hostile.judge import Judge
from tests.hostile.scene import Scene, playing
from tests.hostile.trials import TRIALS, Trial

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_FAR = 4_000_000_000_000_000
Forge = Callable[[Scene], Any]


def _at(position: int) -> Forge:
    """The link with one character replaced by its neighbour in the alphabet."""

    def forge(scene: Scene) -> str:
        at = position % len(scene.link)
        other = _ALPHABET[_ALPHABET.index(scene.link[at]) ^ 1]
        return scene.link[:at] + other + scene.link[at + 1 :]

    return forge


def _of(change: Callable[[str], Any]) -> Forge:
    return lambda scene: change(scene.link)


def _signed_with(key: bytes, **fields: Any) -> Forge:
    given: dict[str, Any] = {"version": 1, "expires_micros": _FAR, "by": "alice", **fields}
    return lambda scene: links.make(key, scene.pause, **given)


def _relabelled(**fields: Any) -> Forge:
    """Other fields, with the tag of alice's link."""

    def forge(scene: Scene) -> str:
        tag = links._unpacked(scene.link)[-links._TAG :]
        known = links._fields(links._unpacked(scene.link)[: -links._TAG])
        made = links.Link(**{**{name: getattr(known, name) for name in known.__struct_fields__}, **fields})
        return links.urlsafe_b64encode(links._encode(made) + tag).rstrip(b"=").decode()

    return forge


LINKS: dict[str, Forge] = {
    "empty": _of(lambda link: ""), "without its end": _of(lambda link: link[:-1]),
    "without its tag": _of(lambda link: link[:-22]),
    "half": _of(lambda link: link[: len(link) // 2]), "without its begin": _of(lambda link: link[1:]),
    "one more": _of(lambda link: link + "A"), "padded": _of(lambda link: link + "="),
    "padded twice": _of(lambda link: link + "=="),
    "twice": _of(lambda link: link * 2), "backwards": _of(lambda link: link[::-1]), "upper": _of(str.upper),
    "lower": _of(str.lower), "swapped case": _of(str.swapcase), "a space before": _of(lambda link: " " + link),
    "a newline after": _of(lambda link: link + "\n"), "a NUL after": _of(lambda link: link + "\0"),
    "a newline inside": _of(lambda link: link[:8] + "\n" + link[8:]),
    "a dot inside": _of(lambda link: link[:8] + "." + link[8:]),
    "full width": _of(lambda link: chr(ord(link[0]) + 0xFEE0) + link[1:]),
    "a surrogate": _of(lambda link: link[:-1] + "\ud800"),
    "percent": _of(lambda link: "".join(f"%{ord(each):02x}" for each in link)), "bytes": _of(str.encode),
    "a list": _of(list),
    "none": _of(lambda link: None), "a dict": _of(lambda link: {"pause": 1}),
    "a long one": _of(lambda link: "A" * 4096),
    "a longer one": _of(lambda link: "A" * 4097), "ten million": _of(lambda link: "A" * 10_000_000),
    "long after its end": _of(lambda link: link + "A" * 4000), "the id of the question": lambda scene: scene.pause,
    "an address": _of(lambda link: f"https://h/{link}"), "code": _of(lambda link: "__import__('os').system('x')"),
    "a pickle": _of(lambda link: "gASVHgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAJpZJSFlFKULg"),
    **{f"character {at}": _at(at) for at in (0, 1, 2, 5, 9, 20, 33, 41, 57, -1, -2, -3, -10, -21, -22, -23)},
    "a key of zeros": _signed_with(bytes(16)), "a key of 32 zeros": _signed_with(bytes(32)),
    "a guessed key": _signed_with(b"perdure.link.1perdure"), "the name of the key": _signed_with(b"links" * 8),
    "for ever": _signed_with(b"x" * 32, expires_micros=links.MAX_MICROS), "for a group": _signed_with(b"x" * 32,
    groups=["admins"]),
    "of mallory": _relabelled(by="mallory"), "of nobody": _relabelled(by=None),
    "of another version": _relabelled(version=2),
    "of no version": _relabelled(version=-1), "for longer": _relabelled(expires_micros=_FAR),
    "for any choice": _relabelled(choices=("approve", "deny")), "of another question": _relabelled(pause="pau_other.1"),
    "of more groups": _relabelled(groups=("finance",)),
}  # fmt: skip
register("links", LINKS)


async def _play(judge: Judge, canary: Canary, kind: str, chosen: Sequence[Hostile], folder: Path) -> None:
    (folder / "links").mkdir()
    async with playing(PLACES[kind](folder / "links"), "async", folder, canary) as scene:
        for each in chosen:
            await _follow(judge, scene, str(each), each.value(scene))
        expired = await scene.store.link(scene.pause, by="alice", user="alice", expires=timedelta(microseconds=1))
        await _follow(judge, scene, "links: one that expired", expired)
        scope = scene.store.scope(approver="mallory")
        for name, work in {
            "look": scope.linked,
            "decide": lambda link: scope.decide_by_link(link, approved=True),
        }.items():
            answer = await judge.call(f"links: {name} by alice's own", lambda work=work: work(scene.link))
            judge.broken(f"links: {name} by alice's own", "" if isinstance(answer, PerdureError) else "was followed")
        judge.broken("links", await scene.changed())


async def _follow(judge: Judge, scene: Scene, what: str, token: Any) -> None:
    for name, work in {
        "look": lambda: scene.store.linked(token), "decide": lambda: scene.store.decide_by_link(token, approved=True),
    }.items():  # fmt: skip
        answer = await judge.call(f"{what}, {name}", work)
        judge.broken(f"{what}, {name}", "" if isinstance(answer, PerdureError) else f"was followed: {answer!r:.200}")


TRIALS.append(Trial(category="links", backends=("memory", "sqlite", "postgres"), play=_play))
