"""Every place of the store's surface where a caller's text, path, ref or filter goes in.

A position returns what the store answered. Those of `EXACT` also check that what was written comes back as it was, and
that a filter finds that and nothing else: a text that is taken for SQL or for an operator fails there.
"""

from __future__ import annotations

from typing import Any

from tests.hostile.scene import BASE, SHARED, Scene, Steps

ID: Steps = {
    "append to a thread": lambda s, t: s.mallory.thread(t).append("log", "x"),
    "load a thread": lambda s, t: s.mallory.thread(t).load(default=None),
    "its history": lambda s, t: s.mallory.thread(t).history(),
    "its messages": lambda s, t: s.mallory.thread(t).messages(),
    "its entries": lambda s, t: s.mallory.thread(t).entries(),
    "its line": lambda s, t: s.mallory.thread(t).info(),
    "its sizes": lambda s, t: s.mallory.thread(t).sizes(),
    "its tree": lambda s, t: s.mallory.thread(t).tree(),
    "fork to it": lambda s, t: s.desk.fork(to=t),
    "compare it": lambda s, t: s.mallory.compare(t, SHARED),
    "export it": lambda s, t: s.mallory.export(t, s.folder / f"{s.name('export')}.perdure"),
    "why": lambda s, t: s.mallory.why(t),
    "cancel it": lambda s, t: s.mallory.cancel(t),
    "resume it": lambda s, t: s.mallory.resume(t),
    "its questions": lambda s, t: s.mallory.pauses(t),
    "a signal to it": lambda s, t: s.mallory.signal(t, "go", 1),
    "start in it": lambda s, t: s.mallory.start("nobody", thread=t),
    "delete it": lambda s, t: s.mallory.thread(t).delete(),
    "a thread of a user": lambda s, t: s.store.thread(SHARED, user=t).load(default=None),
    "append for a user": lambda s, t: s.store.thread(SHARED, user=t).append("log", "x"),
    "a scope of a user": lambda s, t: s.store.scope(user=t).thread(SHARED).load(default=None),
    "threads of a user": lambda s, t: s.store.threads(user=_named(t)),
    "search of a user": lambda s, t: s.store.search("secret", user=_named(t)),
    "runs of a user": lambda s, t: s.store.runs(user=_named(t)),
    "questions of a user": lambda s, t: s.store.pauses(user=_named(t)),
    "decide for a user": lambda s, t: s.store.decide(s.pause, approved=True, by="alice", user=t),
    "a namespace": lambda s, t: s.store.scope(user="mallory", namespace=_named(t)).threads(),
    "append in a namespace": lambda s, t: (
        s.store.scope(user="mallory", namespace=_named(t)).thread(SHARED).append("log", "x")
    ),
    "an approver": lambda s, t: s.store.scope(approver=_named(t)).pauses(),
    "a group": lambda s, t: s.store.scope(approver="mallory", groups=[t]).pauses(),
    "decide by": lambda s, t: s.store.decide(s.pause, approved=True, by=t, user="mallory"),
    "a question": lambda s, t: s.mallory.decide(t, approved=True),
    "a link for a question": lambda s, t: s.store.link(t, by="mallory", user="mallory"),
    "the question of a link": lambda s, t: s.store.linked(t),
    "decide by a link": lambda s, t: s.store.decide_by_link(t, approved=True),
    "a message": lambda s, t: s.desk.message(t),
    "delete a message": lambda s, t: s.desk.delete_message(t),
    "messages before": lambda s, t: s.desk.messages(before=t),
    "messages after": lambda s, t: s.desk.messages(after=t),
    "history before": lambda s, t: s.desk.history(before=t),
    "clear a point": lambda s, t: s.desk.clear(t),
}
LABEL: Steps = {
    "threads by tag": lambda s, t: s.mallory.threads(tag=t),
    "threads by agent": lambda s, t: s.mallory.threads(agent=t),
    "threads by status": lambda s, t: s.mallory.threads(status=t),
    "runs by status": lambda s, t: s.mallory.runs(status=t),
    "runs by agent": lambda s, t: s.mallory.runs(agent=t),
    "history by kind": lambda s, t: s.desk.history(kind=t),
    "history by status": lambda s, t: s.desk.history(status=t),
    "history by agent": lambda s, t: s.desk.history(agent=t),
    "rename": lambda s, t: s.desk.rename(t),
    "a status": lambda s, t: s.desk.change(status=t),
    "a key of an append": lambda s, t: s.desk.append("log", "x", key=t),
    "the same key again": lambda s, t: s.desk.append("log", "y", key=t),
    "an actor": lambda s, t: s.mallory.thread(SHARED, actor=t, task=t).append("log", "x"),
    "a tag of a point": lambda s, t: s.desk.tag("@-1", t),
    "untag": lambda s, t: s.desk.untag(t),
    "an agent that runs": lambda s, t: s.mallory.start(t, thread=s.name("run")),
    "a key of a run": lambda s, t: s.mallory.start("nobody", thread=s.name("run"), key=t),
    "a name of a signal": lambda s, t: s.mallory.signal(s.desk_id, t, 1),
    "a reason": lambda s, t: s.mallory.cancel(s.desk_id, reason=t),
}
REF: Steps = {
    "load": lambda s, t: s.desk.load(t),
    "load with an @": lambda s, t: s.desk.load(f"@{_text(t)}"),
    "load of a tag": lambda s, t: s.desk.load(f"@tag:{_text(t)}"),
    "compare": lambda s, t: s.desk.compare(t, "@1"),
    "compare with others": lambda s, t: s.mallory.compare(t, SHARED),
    "compare a text": lambda s, t: s.mallory.compare(f"{SHARED}{_text(t)}", SHARED),
    "fork at": lambda s, t: s.desk.fork(t, to=s.name("fork")),
    "rewind": lambda s, t: s.desk.rewind(t, dry_run=True),
    "a point": lambda s, t: s.desk.checkpoint(t),
    "tag": lambda s, t: s.desk.tag(t, "here"),
    "save after": lambda s, t: s.desk.save(BASE, after=t),
}
SEARCH: Steps = {
    "search": lambda s, t: s.mallory.search(t),
    "messages": lambda s, t: s.desk.messages(search=t),
    "threads": lambda s, t: s.mallory.threads(search=t),
    "by role": lambda s, t: s.mallory.search("hello", role=t),
    "by roles": lambda s, t: s.mallory.search("hello", role=[t, t]),
    "by node": lambda s, t: s.mallory.search("hello", node=t),
    "by run": lambda s, t: s.mallory.search("hello", run=t),
    "analytics": lambda s, t: s.mallory.analytics(role=t, node=t),
}
PATH: Steps = {
    "append": lambda s, t: s.desk.append(t, "x"),
    "set": lambda s, t: s.desk.update(set={_key(t): "x"}),
    "append to": lambda s, t: s.desk.update(append={_key(t): ["x"]}),
    "delete": lambda s, t: s.desk.update(delete=[t]),
    "set two": lambda s, t: s.desk.update(set={_key(t): 1, "a": {}}),
    "load after it": lambda s, t: s.desk.load(),
}
FILTER: Steps = {
    "threads": lambda s, t: s.mallory.threads(metadata=t),
    "history": lambda s, t: s.desk.history(metadata=t),
    "search": lambda s, t: s.mallory.search("hello", metadata=t),
    "messages": lambda s, t: s.desk.messages(metadata=t),
    "save": lambda s, t: s.desk.save(BASE, metadata=t),
    "change": lambda s, t: s.desk.change(metadata=t),
    "a message": lambda s, t: s.desk.add_messages({"role": "user", "content": "hello", "metadata": t}),
    "a state": lambda s, t: s.desk.save({"v": t}),
    "all of them": lambda s, t: s.mallory.threads(metadata=t),
    "a limit": lambda s, t: s.mallory.threads(limit=t),
    "an input of a run": lambda s, t: s.mallory.start("nobody", t, thread=s.name("run")),
    "a value of a signal": lambda s, t: s.mallory.signal(s.desk_id, "go", t),
}


def _named(value: Any) -> Any:
    """None is no user and so everybody's threads, which only the operator's store is asked for."""
    return "" if value is None else value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else type(value).__name__


def _key(value: Any) -> Any:
    """What Python takes for a key of a dict."""
    return repr(value) if isinstance(value, list | dict | set | bytearray) else value


async def come_back(scene: Scene, text: Any) -> list[str]:
    """Labels and values come back as they were, and each filter finds exactly what has it."""
    found: list[str] = []
    thread = scene.mallory.thread(scene.name("labels"), agent=text, name=text, tags=[text])
    state = {"v": text, text: 1}
    point = await thread.save(state, kind=text, status=text, note=text, metadata={text: text})
    await thread.change(metadata={text: text})
    info = await thread.info()
    if (info.name, info.agent, info.tags, info.metadata) != (text, text, (text,), {text: text}):
        found.append(f"the line of the thread is {info!r:.300}")
    if (point.kind, point.status, point.note, point.metadata) != (text, text, text, {text: text}):
        found.append(f"the checkpoint is {point!r:.300}")
    if await thread.load() != state:
        found.append("the state is another")
    for name, rows in {
        "tag": await scene.mallory.threads(tag=text), "metadata": await scene.mallory.threads(metadata={text: text}),
        "agent": [each for each in await scene.mallory.threads(agent=text) if each.id == info.id or each.agent != text],
    }.items():  # fmt: skip
        if [each.id for each in rows] != [info.id]:
            found.append(f"threads by {name} are {[each.id for each in rows]!r:.300}")
    for name, points in {
        "kind": await thread.history(kind=text), "status": await thread.history(status=text),
        "metadata": await thread.history(metadata={text: text}),
    }.items():  # fmt: skip
        if [each.id for each in points] != [point.id]:
            found.append(f"history by {name} is {points!r:.300}")
    return found


async def say(scene: Scene, text: Any) -> list[str]:
    """A message comes back as it was, by its id, its role and its node."""
    thread = scene.mallory.thread(scene.name("talk"))
    message = {"id": text, "role": text, "content": text, "metadata": {"node": text, "run_id": text}}
    other = {"id": "other", "role": "other", "content": "other", "metadata": {"node": "other"}}
    await thread.add_messages(other, message)
    found = [] if await thread.message(text) == message else ["the message is another"]
    for name, lines in {
        "role": await thread.messages(role=text), "node": await thread.messages(node=text),
        "run": await thread.messages(run=text), "number": await thread.messages(after="other"),
    }.items():  # fmt: skip
        if lines != [message]:
            found.append(f"messages by {name} are {lines!r:.300}")
    return found


EXACT = {"labels": come_back, "messages": say}
EVERYWHERE: Steps = {
    f"{group}: {name}": step
    for group, steps in {"id": ID, "label": LABEL, "ref": REF, "search": SEARCH, "path": PATH}.items()
    for name, step in steps.items()
}
BY_CATEGORY: dict[str, Steps] = {
    "injection": EVERYWHERE, "ids": {**ID, **LABEL}, "types": {**EVERYWHERE, **{f"filter: {n}": s for n,
    s in FILTER.items()}},
    "refs": REF, "searches": SEARCH, "paths": PATH, "filters": FILTER,
}  # fmt: skip
