"""User ids as callers give and see them."""

from __future__ import annotations

from perdure.app.options import UserIdType
from perdure.core.errors import InvalidIdError, InvalidInputError
from perdure.core.identity import ANY_USER, AnyUser, check_user

UserId = str | int
UserArg = str | int | AnyUser | None  # what callers give: None is nobody where one thread is meant, else everybody
_BITS = {"int": 31, "bigint": 63}


class Users:
    """User ids of one type: texts, or whole numbers that fit the column."""

    def __init__(self, kind: UserIdType) -> None:
        from perdure.core.vocabulary import one_of

        one_of(kind, ("string", *_BITS), "user_id_type", InvalidInputError)
        self._kind: UserIdType = kind

    def owner(self, user: object) -> str | None:
        """Whose threads a list covers; None is everybody's."""
        return None if user is None or user is ANY_USER else self.key(user)

    def key(self, user: object) -> str:
        """The user id as a thread's key has it; None is nobody."""
        if self._kind == "string" or user is None or user == "":
            return check_user(user)
        if type(user) is not int:
            raise InvalidIdError("the user id", f"is a {type(user).__name__}, and user_id_type is {self._kind!r}")
        if not -(1 << _BITS[self._kind]) <= user < 1 << _BITS[self._kind]:
            raise InvalidIdError("the user id", f"does not fit user_id_type {self._kind!r}")
        return str(user)

    def shown(self, user: str) -> UserId | None:
        """The user id as it was given; None for nobody."""
        return None if not user else user if self._kind == "string" else int(user)

    def typed(self, user: str | None) -> UserId | None:
        """The user id that a person typed; "" is nobody, None anybody."""
        if not user or self._kind == "string":
            return user
        try:
            return int(user)
        except ValueError:
            raise InvalidIdError("the user id", f"is {user!r}, and user_id_type is {self._kind!r}") from None
