"""What a notification says, and how its receiver knows that it is ours."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.deliveries import Sent, answered, next_try
from perdure.core.errors import InvalidWebhookError
from perdure.core.signatures import keys_of, signed
from perdure.core.webhooks import LONGEST_ARGS, Notice, Webhook, body_of, delivery_id
from perdure.webhooks import WebhookSignatureError, verify
from tests.docs.pages import ROOT, blocks

AT = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
NOW = int(AT.timestamp())
SECRET, NEXT = "whsec_c2l4dGVlbiBieXRlcyBvciBtb3Jl", b"the next one, also a long secret"
HIDDEN = "hunter2"
GUIDE = ROOT / "docs" / "guides" / "notifications.md"


def notice(**fields: Any) -> Notice:
    given = {"pause": "pau_u.1", "name": "deploy", "ask": "Deploy?", "args": {"env": "prod"}, "thread": "t", "run": "r"}
    return Notice(**(given | {"version": 7, "at": AT} | fields))


def told(template: Any = None, **fields: Any) -> Any:
    return json.loads(body_of(notice(**fields), template).content)


def test_the_body_tells_everything_about_the_question() -> None:
    """B17, N4: webhook notification."""
    body = body_of(notice(user="ann", deadline=AT, who=("bob", "eve"), link="https://x/l/1"))
    assert body.content_type == "application/json"
    assert json.loads(body.content) == {
        "event": "pause.opened", "id": delivery_id("pau_u.1"), "pause": "pau_u.1", "name": "deploy", "ask": "Deploy?",
        "args": {"env": "prod"}, "thread": "t", "user": "ann", "run": "r", "version": 7,
        "deadline": "2026-11-16T09:30:00Z", "who": ["bob", "eve"], "link": "https://x/l/1",
        "at": "2026-11-16T09:30:00Z",
    }  # fmt: skip


def test_any_value_that_can_be_kept_is_told() -> None:
    args = {"cost": Decimal("1.50"), "on": date(2026, 1, 2), "raw": b"\x00", "both": (1, 2), "odd": "\ud800"}
    assert told(args=args)["args"] == {
        "cost": {"$decimal": "1.50"}, "on": {"$date": "2026-01-02"}, "raw": {"$bytes": "AA=="},
        "both": {"$tuple": [1, 2]}, "odd": {"$text": "7aCA"},
    }  # fmt: skip


def test_what_cannot_be_shown_does_not_hold_the_question_back() -> None:
    assert told(ask="\ud800?", args=object())["ask"] == "??"


def test_very_large_arguments_are_left_out_and_said_to_be() -> None:
    body = told(args="x" * LONGEST_ARGS)
    assert (body["args"], body["args_omitted"]) == (None, LONGEST_ARGS + 2)


def test_the_id_of_a_delivery_is_that_of_its_pause_in_every_process() -> None:
    assert notice().id == notice(ask="other", at=datetime(2027, 1, 1, tzinfo=UTC)).id == delivery_id("pau_u.1")
    assert delivery_id("pau_u.1") == "ntf_87439d34b448e1dadac5029eef05f126"
    assert len({delivery_id("pau_u.1"), delivery_id("pau_u.2"), delivery_id("pau_u.1", "pause.decided")}) == 3


def test_a_template_for_chat_is_filled_in_every_text_of_it() -> None:
    template = {"text": "{ask} ({thread})", "blocks": [{"n": 1, "to": ["{args.env}", "{nobody}"]}], "{ask}": None}
    assert told(template) == {
        "text": "Deploy? (t)", "blocks": [{"n": 1, "to": ["prod", "{nobody}"]}], "{ask}": None
    }  # fmt: skip


def test_a_template_of_text_is_sent_as_text() -> None:
    body = body_of(notice(ask='{"a": 1}'), "{ask}")
    assert (body.content, body.content_type) == (b'{"a": 1}', "text/plain; charset=utf-8")


@given(st.text())
def test_no_question_writes_fields_of_its_own(ask: str) -> None:
    for template in ('{"text": "{ask}", "to": "ops"}', {"text": "{ask}", "to": "ops"}):
        expected = {"text": ask.encode("utf-8", "replace").decode(), "to": "ops"}
        assert told(template, ask=ask) == expected


def test_what_is_not_there_is_empty_in_a_template() -> None:
    assert told({"text": "{deadline}|{link}|{user}|{who}"}) == {"text": "|||"}
    assert told({"text": "{who} {version} {at}"}, who=("a", "b")) == {"text": "a, b 7 2026-11-16T09:30:00Z"}


@pytest.mark.parametrize(
    "url",
    [
        f"ftp://u:{HIDDEN}@host", f"https://u:{HIDDEN}@host:99999/", f"https://u:{HIDDEN}/x@host", f"https:///{HIDDEN}",
        f"https://host\\@{HIDDEN}/", f"https://h/{HIDDEN} x", f"https://u:{HIDDEN}@h\r\nX: y/", 3, "",
        f"https://h/{HIDDEN}" + "x" * 9000, f"//u:{HIDDEN}@host", f"https://u@{HIDDEN}@host/",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_refused_and_not_shown(url: Any) -> None:
    with pytest.raises(InvalidWebhookError) as told:
        Webhook(url)
    assert HIDDEN not in str(told.value) + repr(told.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"headers": {"X-A": f"{HIDDEN}\r\nX: y"}}, {"headers": {"a b": HIDDEN}}, {"headers": {"Webhook-Id": HIDDEN}},
        {"headers": {"Host": HIDDEN}}, {"headers": 3}, {"headers": {"X": f"{HIDDEN}é"}},
        {"secret": ""}, {"secret": ()}, {"secret": f"whsec_{HIDDEN}é"}, {"secret": 3},
        {"template": 3}, {"template": {"a": object()}}, {"attempts": 0}, {"attempts": True}, {"first_wait": -1},
        {"timeout": 0}, {"timeout": float("nan")}, {"longest_wait": "3"}, {"template": "[" * 40 + "]" * 40},
    ],
)  # fmt: skip
def test_a_webhook_that_cannot_work_is_refused_and_no_secret_is_shown(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidWebhookError) as told:
        Webhook(f"https://u:{HIDDEN}@host/{HIDDEN}?{HIDDEN}", **fields)
    assert HIDDEN not in str(told.value) + repr(told.value)


def test_no_secret_of_a_webhook_is_shown() -> None:
    hook = Webhook(f"https://u:{HIDDEN}@h:8443/{HIDDEN}?{HIDDEN}", secret=HIDDEN, headers={"Authorization": HIDDEN})
    assert HIDDEN not in f"{hook} {hook!r} {hook.__rich_repr__()} {answered(hook, 500, None, 0)}"
    assert repr(hook).startswith("Webhook(url='https://h:8443/…', secret='…', headers=['Authorization'], attempts=3")


def test_a_webhook_does_not_change_with_what_it_was_made_of() -> None:
    headers, template = {"X-A": "1"}, {"text": ["a"]}
    hook = Webhook("http://h", headers=headers, template=template)
    headers["X-A"] = "2"
    template["text"].append("b")
    assert (hook.headers, hook.template) == ({"X-A": "1"}, {"text": ["a"]})


def test_waits_double_up_to_the_longest_and_end() -> None:
    """N4: retry 3/1 s/30 s."""
    assert [next_try(Webhook("http://h"), attempt) for attempt in (1, 2, 3, 4)] == [1.0, 2.0, None, None]
    many = Webhook("http://h", attempts=2000)
    assert [next_try(many, attempt) for attempt in (1, 5, 6, 1999, 2000)] == [1.0, 16.0, 30.0, 30.0, None]


def test_a_receiver_may_ask_for_a_longer_wait_but_not_for_ever() -> None:
    hook = Webhook("http://h", first_wait=2)
    assert [next_try(hook, 1, asked) for asked in (None, 1.0, 9.0, 1e9)] == [2.0, 2.0, 9.0, 30.0]
    assert next_try(hook, 3, 9.0) is None


@pytest.mark.parametrize(
    ("header", "asked"),
    [
        ("7", 7.0), ("999999999", 30.0), ("Mon, 16 Nov 2026 09:30:05 GMT", 5.0), ("Mon, 16 Nov 2020 09:30:05 GMT", 0.0),
        ("soon", None), ("", None), ("-3", None), ("nan", None), ("9" * 5000, None), (None, None),
    ],
)  # fmt: skip
def test_retry_after_is_read_as_seconds_or_as_a_date(header: str | None, asked: float | None) -> None:
    assert answered(Webhook("http://h"), 503, header, NOW * 1_000_000).asked == asked


def test_only_success_and_gone_are_the_end() -> None:
    ends = {code: answered(Webhook("http://h"), code, None, 0).outcome for code in (*range(200, 600, 7), 204, 410)}
    assert {code for code, end in ends.items() if end == "delivered"} == {code for code in ends if code < 300}
    assert [code for code, end in ends.items() if end == "given up"] == [410]
    assert [bool(Sent(outcome=end)) for end in ("delivered", "retry", "given up")] == [True, False, False]


def delivery(secret: Any = SECRET, body: bytes = b"{}") -> dict[str, str]:
    return signed(keys_of(secret), "ntf_1", NOW, body)


def test_a_delivery_is_known_by_its_signature_and_named() -> None:
    assert verify(SECRET, delivery(), b"{}", NOW) == "ntf_1"
    assert verify(SECRET, {name.title(): value for name, value in delivery().items()}, b"{}", AT) == "ntf_1"


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example of that convention's own libraries."""
    keys = keys_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = signed(keys, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(st.data())
def test_a_delivery_that_was_changed_is_refused(data: st.DataObject) -> None:
    headers, body = delivery(body=b'{"a": 1}'), b'{"a": 1}'
    part = data.draw(st.sampled_from([*headers, "body"]))
    if part == "body":
        body = data.draw(st.binary().filter(lambda other: other != body))
    else:
        headers[part] = data.draw(st.text().filter(lambda other: headers[part] not in other.split(" ")))
    with pytest.raises(WebhookSignatureError):
        verify(SECRET, headers, body, NOW)


@pytest.mark.parametrize("late", [-301, 301, 10**9, float("nan")])
def test_an_old_delivery_is_refused(late: float) -> None:
    with pytest.raises(WebhookSignatureError, match="more than 300 s"):
        verify(SECRET, delivery(), b"{}", NOW + late)
    assert verify(SECRET, delivery(), b"{}", NOW + 300) == "ntf_1"


def test_a_delivery_without_its_headers_is_refused() -> None:
    for name in delivery():
        with pytest.raises(WebhookSignatureError, match=name):
            verify(SECRET, {each: value for each, value in delivery().items() if each != name}, b"{}", NOW)


def test_secrets_are_replaced_without_a_gap() -> None:
    both = delivery(secret=(NEXT, SECRET))
    assert len(both["webhook-signature"].split(" ")) == 2
    assert verify(SECRET, both, b"{}", NOW) == verify(NEXT, both, b"{}", NOW) == "ntf_1"
    assert verify((NEXT, SECRET), delivery(), b"{}", NOW) == "ntf_1"
    with pytest.raises(WebhookSignatureError):
        verify(NEXT, delivery(), b"{}", NOW)


def test_the_guide_shows_what_is_sent() -> None:
    fields = {"env": "prod", "cost": Decimal("12.50")}
    body = told(
        pause="pau_0193a1.1", ask="Deploy to production?", args=fields, thread="release-17", user="ann",
        run="run_0193a1", version=4, deadline=datetime(2026, 11, 17, 9, tzinfo=UTC), who=["bob"],
    )  # fmt: skip
    (shown,) = [block.text for block in blocks(GUIDE) if block.language == "json"]
    assert list(json.loads(shown).items()) == list(body.items())
