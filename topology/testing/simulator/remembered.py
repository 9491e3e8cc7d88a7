"""The memory of a run: soon after all messages are done, only what dead messages may bring again is left of it.

Must not know when a run is asked, nor what is wrong with it.
"""

from collections import Counter
from collections.abc import Iterable

from topology.runtime.state.committed import CommittedStateExecutor
from topology.runtime.worker.worker import Worker


def remembered(workers: Iterable[Worker]) -> Counter[str]:
    """Return what these workers remember of messages that are not dead: kind, and how many."""
    found: Counter[str] = Counter()
    for worker in workers:
        subtrees = worker.subtrees
        found["trees"] += len(worker.ledger)
        found["messages that wait for a replay"] += sum(len(task.replays) for task in worker.spout_tasks.values())
        found["open sub-trees"] += len(subtrees.open)
        if not worker.floors.dead:  # a dead one among the inputs may be replayed by hand
            found["sub-trees"] += len(list(subtrees.not_done)) + len(subtrees.stale())
        for executor in worker.executors.values():
            if isinstance(executor, CommittedStateExecutor):
                memory = executor.memory
                found[f"inputs of {executor.component!r}"] += sum(
                    origin not in memory.floors.dead for origin, _ in memory.entries
                )
    return +found
