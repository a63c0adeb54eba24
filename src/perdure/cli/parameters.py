"""The parameters that commands share: which storage, whose thread, and an answer for whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal

from cyclopts import Parameter

from perdure.app.options import StorageOptions, UserIdType
from perdure.cli.hints import hint
from perdure.core.limits import DecodeLimits, limits_given
from perdure.storage.permissions import parse_file_mode

Address = Annotated[str, Parameter(help="The address of the storage.")]
Untouched = Annotated[str, Parameter(help="The address of the storage; nothing is changed there.")]
ThreadId = Annotated[str, Parameter(help="The id of the thread.")]
Owner = Annotated[
    str | None, Parameter(help='Whose thread it is, where several users have one of this id; "" for nobody\'s.')
]
Owned = Annotated[str | None, Parameter(help='Only threads of this user; "" for those that belong to nobody.')]
Handlers = Annotated[
    str,
    Parameter(
        help="The module (or file.py) that registers the handlers; MODULE:FUNCTION for another function than register."
    ),
]
Output = Annotated[
    Literal["text", "json"], Parameter(name=["--output", "-o"], help="For people, or for programs.", show_default=True)
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Server:
    """How a storage is laid out."""

    schema: str | None = None
    """PostgreSQL: the schema of the tables."""

    user_id_type: UserIdType | None = None
    """Servers: the type of user ids."""

    file_mode: str | None = None
    """Files: the mode of those that are made, in octal digits (600)."""

    max_decoded_bytes: int | None = None
    """The most bytes that a stored value may have (268435456)."""

    max_decoded_nodes: int | None = None
    """The most nodes, which are values and keys of mappings, that a stored value may have (2000000)."""

    @property
    def limits(self) -> DecodeLimits:
        """How large a stored value may be."""
        return limits_given(self.max_decoded_bytes, self.max_decoded_nodes)

    @property
    def options(self) -> StorageOptions:
        """Those of `open` that were given."""
        given: StorageOptions = {}
        if self.schema is not None:
            given["schema"] = self.schema
        if self.user_id_type is not None:
            given["user_id_type"] = self.user_id_type
        if self.file_mode is not None:
            given["file_mode"] = parse_file_mode(self.file_mode)
        if self.max_decoded_bytes is not None:
            given["max_decoded_bytes"] = self.max_decoded_bytes
        if self.max_decoded_nodes is not None:
            given["max_decoded_nodes"] = self.max_decoded_nodes
        return given


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Place(Server):
    """Where threads are, beside the address: what leads a person there leads to the same ones again."""

    namespace: str = ""
    """The namespace of the threads."""

    config: str | None = None
    """A config.yaml that says where threads are kept, instead of the URL; what is given here wins."""

    def hint(
        self, name: str, url: str | None, *arguments: str, user: str | None = None,
        options: Mapping[str, str | bool] = MappingProxyType({}),
    ) -> str:  # fmt: skip
        """What to type to reach the same threads with a command."""
        place = {
            "--user": user, "--namespace": self.namespace or None, "--schema": self.schema,
            "--user-id-type": self.user_id_type, "--file-mode": self.file_mode, "--config": self.config,
        }  # fmt: skip
        return hint(name, url, arguments, {**options, **place})


HERE, ANY_SERVER = Place(), Server()
