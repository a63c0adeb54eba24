"""A server that speaks OpenAI's chat completions (and a little of its responses), and answers as it is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple, Self


class Fail(NamedTuple):
    """An answer with another status."""

    status: int
    body: Any = MappingProxyType({"error": {"message": "no", "code": "bad"}})
    headers: Mapping[str, str] = MappingProxyType({})


class Stall(NamedTuple):
    """An answer that comes late."""

    seconds: float


class Cut(NamedTuple):
    """A stream that ends in the middle of this text."""

    text: str


class Raw(NamedTuple):
    """An answer of these bytes."""

    body: bytes


class Asked(NamedTuple):
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class ChatServer:
    """On a free port of loopback. Each request takes the next of `answers`: a text, or a list of (tool, args)."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Asked] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        chat = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                chat.asked.append(Asked(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                answer = chat.answers.pop(0)
                if isinstance(answer, Stall):
                    time.sleep(answer.seconds)
                    answer = "late"
                chat._answer(self, answer, body)

            def log_message(self, format: str, *args: Any) -> None: ...

        return Handler

    def _answer(self, handler: BaseHTTPRequestHandler, answer: Any, body: dict[str, Any]) -> None:
        if isinstance(answer, Fail):
            return _send(handler, answer.status, json.dumps(answer.body, default=dict).encode(), answer.headers)
        if isinstance(answer, Raw):
            return _send(handler, 200, answer.body)
        if body.get("stream"):
            text = "".join(f"data: {each}\n\n" for each in _chunks(answer))
            return _send(handler, 200, text.encode(), {"content-type": "text/event-stream"})
        made = response(answer) if handler.path.endswith("/responses") else completion(answer)
        return _send(handler, 200, json.dumps(made).encode())


def _send(handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    handler.send_response(status)
    for name, value in {"content-type": "application/json", **(headers or {})}.items():
        handler.send_header(name, value)
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    with suppress(BrokenPipeError, ConnectionResetError):  # it did not wait
        handler.wfile.write(body)


USAGE = {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15}


def completion(answer: Any) -> dict[str, Any]:
    """A whole answer."""
    message: dict[str, Any] = {"role": "assistant", "content": answer if isinstance(answer, str) else None}
    if not isinstance(answer, str):
        message["tool_calls"] = _calls(answer)
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": USAGE}


def response(answer: str) -> dict[str, Any]:
    """A whole answer of the responses API."""
    part = {"type": "output_text", "text": answer, "annotations": []}
    said = {"id": "m1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    return {
        "id": "r1", "object": "response", "created_at": 1, "model": "m", "output": [said], "parallel_tool_calls": True,
        "tool_choice": "auto", "tools": [], "status": "completed",
    }  # fmt: skip


def _calls(answer: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": _written(args)}}
        for at, (name, args) in enumerate(answer)
    ]


def _written(args: Any) -> str:
    return args if isinstance(args, str) else json.dumps(args)


def _chunks(answer: Any) -> Iterator[str]:
    text = answer.text if isinstance(answer, Cut) else answer
    if isinstance(text, str):
        for at in range(0, len(text), 4):
            yield _chunk({"content": text[at : at + 4]})
    else:
        for at, call in enumerate(_calls(text)):
            arguments = call["function"].pop("arguments")
            yield _chunk({"tool_calls": [{**call, "index": at}]})
            for start in range(0, len(arguments), 3):
                part = {"index": at, "function": {"arguments": arguments[start : start + 3]}}
                yield _chunk({"tool_calls": [part]})
    if not isinstance(answer, Cut):
        yield _chunk({}, finish_reason="stop")
        yield json.dumps({**_HEAD, "choices": [], "usage": USAGE})
        yield "[DONE]"


_HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> str:
    return json.dumps({**_HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})
