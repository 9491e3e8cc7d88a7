"""The steps of a checkpoint, at which a fault may hit. Tells when one of them is done, by wrapping what does it.

A step is done in a turn of the loop; a caller that waits for it acts before the next turn. Must not know faults.
"""

import enum
from collections.abc import Callable
from typing import Any

from topology.storage.worker_store import WorkerStore

Done = Callable[["Step"], None]


class Step(enum.Enum):
    """The event that has just happened. The value is a part of a sentence."""

    NOTED = "a worker has noted what is done"
    BARRIER = "the barrier is sent"
    GATHERED = "a worker has gathered"
    WRITTEN = "a worker has written its part, and not said so"
    PREPARED = "all workers have kept their parts, and nothing is decided"
    DECIDED = "a checkpoint is decided, and nobody has heard of it"
    HEARD = "a worker has heard of the decision"
    TAKEN_IN = "a worker has taken the decision in"


def watch_store(store: WorkerStore, done: Done) -> None:
    """Tell when the store of a worker has written its part; of a run with one worker, that is the decision."""
    _after(store, "prepare", Step.WRITTEN, done)
    _after(store, "conclude", Step.DECIDED, done)
    _after(store, "decided", Step.TAKEN_IN, done)


def watch_worker(checkpoints: Any, done: Done) -> None:
    """Tell when a worker has noted, gathered, and heard of a decision."""
    _after(checkpoints, "note", Step.NOTED, done)
    _after(checkpoints, "gather", Step.BARRIER, done)
    _after(checkpoints, "decided", Step.HEARD, done)
    before = checkpoints.before_gather

    def gathers(checkpoint: int) -> None:
        before(checkpoint)
        done(Step.GATHERED)

    checkpoints.before_gather = gathers


def watch_decisions(file: Any, done: Done) -> None:
    """Tell when a decision is about to be made, and when it is durable."""
    decide = file.decide

    def decides(checkpoint: int) -> None:
        decide(checkpoint)
        done(Step.DECIDED)

    file.decide = decides


def _after(of: Any, name: str, step: Step, done: Done) -> None:
    method = getattr(of, name)

    def does(*args: Any, **settings: Any) -> Any:
        result = method(*args, **settings)
        done(step)
        return result

    setattr(of, name, does)
