"""Failures: why a tree failed, and what each reason means for its message. A table, and no behaviour.

Only failures of a tree's own tuples count against `retry_for_s` and `max_replays`. Failures around them have a budget
of their own (E6).
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
    """The reason why a tree failed. The value is what people read."""

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
    """One failure of one input at one component. `error` is the user's exception, with its traceback.

    A failure that came over a link has no `error`, only `trace`, the traceback as text. `kind` is its code, if its
    reason does not determine it.
    """

    reason: Reason
    component: str
    text: str = ""
    error: BaseException | None = None
    trace: str = ""
    kind: Code | None = None

    @property
    def code(self) -> Code:
        """Return the code to look up: that of the error if it is one of ours."""
        error = self.error.code if isinstance(self.error, KedgeError) else None
        return error or self.kind or CODES[self.reason]

    def __str__(self) -> str:
        return f"{self.reason.value} in {self.component!r}" + (f": {self.text}" if self.text else "")

    def traceback(self) -> str:
        """Return the traceback from the first frame of the user's code on, and the next step if it is known; empty if
        nothing was raised."""
        if self.error is None:
            return self.trace
        frames = users_frames(self.error)
        if not frames and isinstance(self.error, KedgeError):
            # the error's own sentence is shown, and says the rest
            return "\n".join(getattr(self.error, "__notes__", ()))
        return frames or formatted(self.error, self.error.__traceback__)


def could_not_emit(error: BaseException) -> bool:
    """Return True if the error says what can't be emitted or stored, or is already finished. All of ours have a code.
    If user code raises one of these classes without a code, the error is the user's own, like any other error."""
    return isinstance(error, EmitError | RecordError | TupleStateError) and error.code is not None
