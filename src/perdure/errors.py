"""Every error Perdure raises; see `perdure.core.errors` for the tree and what each one means."""

from perdure.core.errors import *  # noqa: F403
