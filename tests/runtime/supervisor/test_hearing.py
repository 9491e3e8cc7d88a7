"""What the supervisor makes of workers' last words."""

from types import SimpleNamespace
from typing import Any

from process_topologies import sums

from topology.plan import plan
from topology.runtime.control.messages import Closed
from topology.runtime.supervisor.messages import MessageHandler
from topology.runtime.supervisor.metrics import WorkerMetrics
from topology.runtime.telemetry.metrics import packed


def test_words_of_a_component_whose_worker_has_died_say_that_they_are_of_its_last_life_alone() -> None:
    """The table counts all lives; what a component says itself it has counted since it was opened."""
    planned = plan(sums(tasks=2), 2)
    figures = WorkerMetrics(planned)
    nothing: Any = SimpleNamespace()
    heard = MessageHandler(planned, figures, nothing, nothing, nothing, lambda: 9.0)
    last = packed(figures.whole())
    figures.died(1)
    for worker in (0, 1):
        handle: Any = SimpleNamespace(worker=worker)
        heard.heard(handle, Closed(last, 0, {"sink": [f"{worker + 5} rows", "  in 2 batches"], "mute": []}))
    assert heard.summaries == {
        "sink": ["5 rows", "  in 2 batches", "6 rows (since worker 1 came back)", "  in 2 batches"]
    }
