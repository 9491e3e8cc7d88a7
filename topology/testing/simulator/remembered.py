"""The memory of a run: soon after all messages are done, only what may come again is left of it.

That is what is known of dead messages, which may be replayed by hand. And what lives that are over have left of inputs
that were joined with others: the join may never come about again, so that only a bound ends it. Must not know when a
run is asked, nor what is wrong with it.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from topology.runtime.state.known_input import KnownInput
from topology.runtime.state.known_inputs import each
from topology.runtime.worker.worker import Worker


def remembered(workers: Iterable[Worker], joined: Collection[str], *, by_count: bool) -> Counter[str]:
    """Return what these workers remember of messages that are not dead: kind, and how many. `joined` are the bolts
    whose inputs may come from several messages. `by_count`: outputs of keyed bolts are named by their count, and do not
    say whose they are: what an earlier life has left of a dead message stays, also once its letter is dropped."""
    workers = [*workers]
    letters = [worker.dead_letters.letter_store for worker in workers]
    dead = frozenset[int]().union(*(store.dead for store in letters))
    unfinished = set[int]().union(*(worker.dead_letters.unfinished() for worker in workers))
    dropped = by_count and any(worker.decided.has_dropped for worker in workers)
    found: Counter[str] = Counter()

    def may_stay(origin: int, entry: KnownInput, component: str) -> bool:
        if entry.messages:
            return origin in dead or not unfinished.isdisjoint(each(entry.messages))
        return origin in dead or component in joined or (by_count and bool(dead)) or dropped

    for worker in workers:
        subtrees = worker.subtrees
        found["trees"] += len(worker.ledger)
        found["messages that wait for a replay"] += sum(len(task.replays) for task in worker.spout_tasks.values())
        found["open sub-trees"] += len(subtrees.open)
        if not dead:  # a dead one among the inputs may be replayed by hand
            found["sub-trees"] += len(subtrees.note()[0])
        for task in worker.with_state:
            left = sum(not may_stay(origin, entry, task.component) for (origin, _), entry in task.known)
            found[f"inputs of {task.component!r}"] += left
    return +found
