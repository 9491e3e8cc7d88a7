"""Failures: why a tree failed, and what each reason means for its message. A table, and no behaviour.

Only what a tree's own tuples did counts against `retry_for_s` and `max_replays`; what happened around them has a budget
of its own (E6).
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from topology.codes.code import Code
from topology.codes.runtime import (
    BOLT_FAILED_INPUT,
    DEADLY_MESSAGE,
    DRAIN_TIMEOUT,
    EMIT_FAILED,
    MESSAGE_REJECTED,
    PEER_WORKER_LOST,
    PROCESS_TIMEOUT,
    RECORD_TOO_LARGE,
    STALE_TUPLE,
    TREE_TIMEOUT,
    TUPLE_FORGOTTEN,
    UNDECODABLE_RECORD,
    USER_CODE_RAISED,
)
from topology.errors import EmitError, KedgeError, RecordError, TupleStateError
from topology.user_frames import formatted, users_frames

INFRASTRUCTURE_REPLAYS_MAX: Final = 100  # of one message, for reasons that are not its own


class Reason(enum.Enum):
    """Why a tree failed. The value is what people read."""

    RAISED = "raised"
    FAILED = "failed by the bolt"
    TIME_LIMIT = "over the time limit"
    EMIT = "could not emit"
    REJECTED = "rejected"
    DEADLY = "took workers down"
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


DEAD_AT_ONCE: Final = frozenset({Reason.REJECTED, Reason.DEADLY})  # no replay can help

CODES: Final[Mapping[Reason, Code]] = {
    Reason.RAISED: USER_CODE_RAISED,
    Reason.FAILED: BOLT_FAILED_INPUT,
    Reason.TIME_LIMIT: PROCESS_TIMEOUT,
    Reason.EMIT: EMIT_FAILED,
    Reason.REJECTED: MESSAGE_REJECTED,
    Reason.DEADLY: DEADLY_MESSAGE,
    Reason.TIMED_OUT: TREE_TIMEOUT,
    Reason.FORGOTTEN: TUPLE_FORGOTTEN,
    Reason.PEER_LOST: PEER_WORKER_LOST,
    Reason.CUT_OFF: DRAIN_TIMEOUT,
    Reason.STALE: STALE_TUPLE,
    Reason.UNDECODABLE: UNDECODABLE_RECORD,
    Reason.OVERSIZED: RECORD_TOO_LARGE,
}


@dataclass(frozen=True)
class Failure:
    """One failure of one input at one component; `error` is the user's exception, with its traceback. Of one that came
    over a link there is only `trace`, its traceback as text. `kind`: its code, where its reason does not say it all."""

    reason: Reason
    component: str
    text: str = ""
    error: BaseException | None = None
    trace: str = ""
    kind: Code | None = None

    @property
    def code(self) -> Code:
        """What to look up for it: that of an error of ours, where it is one."""
        error = self.error.code if isinstance(self.error, KedgeError) else None
        return error or self.kind or CODES[self.reason]

    def __str__(self) -> str:
        return f"{self.reason.value} in {self.component!r}" + (f": {self.text}" if self.text else "")

    def traceback(self) -> str:
        """The traceback from the first frame of the user's code on, and what to do next where that is known; empty
        where nothing was raised."""
        if self.error is None:
            return self.trace
        frames = users_frames(self.error)
        if not frames and isinstance(self.error, KedgeError):
            return "\n".join(getattr(self.error, "__notes__", ()))  # its own sentence is told, and says the rest
        return frames or formatted(self.error, self.error.__traceback__)


def could_not_emit(error: BaseException) -> bool:
    """Whether it says what can't go or be kept, or is over already. All of ours have a code; where user code raises one
    of these classes itself, without one, that is the user's own, as is any other error."""
    return isinstance(error, EmitError | RecordError | TupleStateError) and error.code is not None
