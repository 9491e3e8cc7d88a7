"""`kedge check --guarantees` names a source whose tasks share one queue."""

import pytest
from declaring_kit import Declaring, Lines
from test_guarantees import EXACTLY, Store, weak

from topology.checks.guarantees import guarantees


@pytest.mark.parametrize("tasks", [1, 2])
def test_tasks_that_share_a_queue_may_count_a_message_twice_in_state(tasks: int) -> None:
    class Queue(Lines):
        one_queue = True

    declaring = Declaring()
    declaring.bolt("store", Store(), declaring.topology.spout("queue", Queue(), tasks=tasks).shuffle())
    (promise,) = [each for each in guarantees(declaring.topology) if each.sink == "store"]
    assert promise.guarantee is EXACTLY
    assert weak(promise) == (["queue"] if tasks > 1 else [])
