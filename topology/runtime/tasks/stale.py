"""The fate of trees that wait for a stale tuple. Must not know who has refused it."""

from typing import Any

from acker.frontier import Decided
from acker.roots import LAST_ATTEMPT, attempt_of, message_of
from topology.core.tuples import Tuple
from topology.runtime.failures import Failure, Reason
from topology.runtime.tasks.interfaces import TreeHome


def refused(tup: Tuple[Any], home: TreeHome, decided: Decided, component: str) -> None:
    """Take note that `component` has refused a stale tuple. Where it belongs to others' trees too, as a join's result
    does, those can't be complete without it: they fail at once, and not when they time out (D15). So does a sub-tree,
    and with it all that it stands for."""
    if tup.others or attempt_of(tup.root) == LAST_ATTEMPT:
        failure = Failure(Reason.STALE, component, "it was joined with what is done, or of an earlier life")
        for root in tup.roots:
            if attempt_of(root) == LAST_ATTEMPT or not decided.refuses(message_of(root)):
                home.fail(root, failure)
