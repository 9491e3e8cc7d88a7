"""One input that a task knows: what it changed is a part of the state, and these are its outputs.

This is the Python core's class; `known_input.pyx` has the compiled one, with the same attributes. Must not know who
remembers it, nor for how long.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec

# The messages that an input came in: its roots without their attempts; () if they are unknown.
Messages: TypeAlias = int | tuple[int, ...]
ENTRY_BYTES: Final = 300  # of memory, approximately, for an input without its outputs


class KnownInput(msgspec.Struct, eq=False, gc=False):
    """One input.

    key      What it is filed by: the key of its state, or None, and then its identity; `slot`, where that is known.
    records  Its outputs; `outputs` has the same as bytes, with the numbers of their classes.
    loaded   True if `records` is to be decoded from `outputs`.
    first    The count of its first output at the key, if they are named by their count; else -1.
    out      True once its outputs may leave.
    waiting  Tuples of this input that came before that (D3).
    timer    True for a timer that has fired; its messages are the trees of its outputs.
    """

    messages: Messages
    key: bytes | None = None
    records: Sequence[Any] = ()
    outputs: Sequence[tuple[int, bytes]] = ()
    loaded: bool = False
    first: int = -1
    out: bool = True
    waiting: list[Any] | None = None
    timer: bool = False
    slot: int = -1

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return ENTRY_BYTES + sum([len(data) + ENTRY_BYTES for _, data in self.outputs])


new: Final = KnownInput  # compiled: a call in C
