"""Failures: why a tree failed, and what each reason means for its message. A table, and no behaviour.

Only what a tree's own tuples did counts against `max_replays`; what happened around them has a budget of its own (E6).
"""

import enum
import traceback
import types
from dataclasses import dataclass
from typing import Final

from topology.errors import KedgeError

INFRASTRUCTURE_REPLAYS_MAX: Final = 100  # of one message, for reasons that are not its own


class Reason(enum.Enum):
    """Why a tree failed. The value is what people read."""

    RAISED = "raised"
    FAILED = "failed by the bolt"
    TIME_LIMIT = "over the time limit"
    EMIT = "could not emit"
    REJECTED = "rejected"
    TIMED_OUT = "no progress"
    FORGOTTEN = "held and forgotten"
    PEER_LOST = "a link or worker was lost"
    CUT_OFF = "cut off by the drain"
    STALE = "stale"
    UNDECODABLE = "undecodable"
    OVERSIZED = "too large for a frame"


OWN: Final = frozenset(
    {
        *(Reason.RAISED, Reason.FAILED, Reason.TIME_LIMIT, Reason.EMIT, Reason.REJECTED, Reason.FORGOTTEN),
        *(Reason.UNDECODABLE, Reason.OVERSIZED),
    }
)


@dataclass(frozen=True)
class Failure:
    """One failure of one input at one component; `error` is the user's exception, with its traceback. Of one that came
    over a link there is only `trace`, its traceback as text."""

    reason: Reason
    component: str
    text: str = ""
    error: BaseException | None = None
    trace: str = ""

    def __str__(self) -> str:
        return f"{self.reason.value} in {self.component!r}" + (f": {self.text}" if self.text else "")

    def traceback(self) -> str:
        """The traceback from the first frame of the user's code on; empty where nothing was raised."""
        if self.error is None:
            return self.trace
        frames = _beyond_runtime(self.error)
        if frames is None and isinstance(self.error, KedgeError):
            return ""  # a sentence of ours says it all
        return "".join(traceback.format_exception(type(self.error), self.error, frames or self.error.__traceback__))


def text_of(error: BaseException) -> str:
    """An exception's text; never raises, though the exception's own `__str__` may."""
    try:
        return str(error)
    except BaseException:
        return "its text can't be told"


def described(error: BaseException) -> str:
    """The class of an exception, and its text."""
    return f"{type(error).__name__}: {text_of(error)}"


def shown(value: object, most: int) -> str:
    """The beginning of a value's repr; never raises, though its `__repr__` may."""
    try:
        return repr(value)[:most]
    except BaseException:
        return f"a {type(value).__name__} that can't be shown"


def _beyond_runtime(error: BaseException) -> types.TracebackType | None:
    """The error's traceback without the runtime's own leading frames; None where all of it is the runtime's."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__", "").startswith("topology."):
        frames = frames.tb_next
    return frames
