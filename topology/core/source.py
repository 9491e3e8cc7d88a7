"""The origin of a tuple. Must not know how tuples are routed."""

from collections.abc import Callable
from typing import Any

import msgspec


class Source(msgspec.Struct, frozen=True):
    """The origin of a tuple: the subscription that delivered it to this task."""

    component: str
    stream: str
    tag: int = 0  # mixed into the identity to make the edge of this delivery; 0: the identity is the edge
    # record → the key of its state; None if the tuple is routed by its identity
    key: Callable[[Any], Any] | None = None
