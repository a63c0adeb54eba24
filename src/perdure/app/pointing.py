"""Which point a caller means: a text ref, a checkpoint, a thread, or a thread and a ref."""

from __future__ import annotations

from perdure.app.comparing import Place
from perdure.app.parts import Parts
from perdure.app.thread import Thread
from perdure.app.users import UserArg
from perdure.core import refs
from perdure.core.checkpoint import Checkpoint
from perdure.core.errors import SAY_WHOSE, InvalidInputError, InvalidRefError, NotFoundError, short_repr
from perdure.core.identity import ANY_USER, ThreadKey, check_id


class Pointing:
    """Finds the places that are named in one namespace.

    A text means a thread of the user, of nobody where none is named, of whoever has the only match by `ANY_USER`. A
    handle and a checkpoint say themselves whose they are; another one's than the named user's are absent.
    """

    def __init__(self, parts: Parts, namespace: str, user: UserArg) -> None:
        self._parts = parts
        self._namespace = namespace
        self._user = user

    async def place(self, point: object) -> Place:
        """The place of a point; raise `InvalidInputError` for what cannot be one, `NotFoundError` for another's."""
        place = await self._place(point)
        owner = self._parts.users.owner(self._user)
        if owner is not None and place.key.user != owner:
            raise NotFoundError(f"thread {place.key.id!r}")
        return place

    async def _place(self, point: object) -> Place:
        if isinstance(point, str):
            return await self._text(point)
        if isinstance(point, Checkpoint):
            return await self._checkpoint(point.id, self._user if self._user is not None else point.user_id)
        if isinstance(point, tuple) and len(point) == 2:
            return Place(await self._key(point[0]), point[1])
        return Place(await self._key(point))

    async def _text(self, text: str) -> Place:
        if isinstance(_ref(text), refs.AtCheckpoint):
            return await self._checkpoint(text.removeprefix("@"), self._user)
        thread, ref = refs.split(text)
        key = await self._key(thread)
        if ref is None:
            await self._check_id(key)
        return Place(key, None if ref is None else text[len(thread) :])

    async def _check_id(self, key: ThreadKey) -> None:
        """An id may have an `@` in it. Where there is no thread of it, a ref was meant that cannot be read."""
        _, at, ref = key.id.rpartition("@")
        if at and await self._parts.storage.thread(key) is None:
            raise NotFoundError(f"thread {key.id!r}", str(InvalidRefError(at + ref)))

    async def _checkpoint(self, checkpoint_id: str, user: UserArg) -> Place:
        await self._parts.ready()
        owner = None if user is ANY_USER else self._parts.users.key(user)
        row = await self._parts.storage.checkpoint(self._namespace, owner, checkpoint_id)
        if row is None:
            raise NotFoundError(f"checkpoint {checkpoint_id}", SAY_WHOSE if user is None else "")
        return Place(ThreadKey(self._namespace, row.user, row.thread_id), checkpoint_id)

    async def _key(self, thread: object) -> ThreadKey:
        if isinstance(thread, Thread):
            return await _key_of(thread, self._parts)
        if not isinstance(thread, str):
            raise InvalidInputError(
                f"{short_repr(thread)} is no point: give 'thread@ref', a checkpoint, a thread, or a thread and a ref"
            )
        user = None if self._user is ANY_USER else self._user
        key = ThreadKey(self._namespace, self._parts.users.key(user), check_id(thread, "the thread id"))
        return await _key_of(Thread(self._parts, key, any_user=self._user is ANY_USER), self._parts)


async def _key_of(thread: Thread, parts: Parts) -> ThreadKey:
    # Another store may be driven by another loop, or take turns with another baton.
    if thread._parts is not parts:  # pyright: ignore[reportPrivateUsage]  # its face is for users
        raise InvalidInputError(f"{thread!r} is a thread of another store")
    return await thread._found()  # pyright: ignore[reportPrivateUsage]


def _ref(text: str) -> refs.Ref | None:
    try:
        return refs.parse(text)
    except InvalidRefError:
        return None
