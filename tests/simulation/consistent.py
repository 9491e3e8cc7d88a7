"""What must fit together at the end of a simulation: states of bolts, what they have emitted, and who has read that.

Whatever order inputs came in, and whatever was computed again: each input is in the state of its key once; the row that
a sink has under a name was emitted by the state as it is now, if it came last; and a bolt that reads counts has exactly
those inputs that the state above has counted. Must not know faults.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.simulation.surviving import CapturedCounts, Count, Taken, Tallies
from topology.graph import Declared
from topology.keys import value_of
from topology.testing.simulator.simulate import SimReport

History = Mapping[int, tuple[Taken, ...]]  # key → its inputs, in their order


def check(report: SimReport, *, dead: bool) -> None:
    """Raise AssertionError unless all fits together. `dead`: some messages died, and some of their effects may lack."""
    assert report.topology is not None
    components = {one.name: one for one in report.topology.components}
    tallies = {name: _history(report.states[name]) for name, one in components.items() if _counts(one)}
    for name, history in tallies.items():
        for key, taken in history.items():
            twice = [one for one, times in Counter(taken).items() if times > 1]
            assert not twice, f"the state of {key} in {name!r} has counted {twice[:3]} twice"
    for one in components.values():
        above = one.inputs[0].component if one.inputs else ""
        if above in tallies and isinstance(one.prototype, CapturedCounts):
            _check_rows(one, above, tallies[above], dead=dead)
        if above in tallies and one.name in tallies:
            _check_read(one.name, above, tallies, dead=dead)


def _counts(one: Declared) -> bool:
    return isinstance(one.prototype, Tallies) and one.prototype.recovery == "checkpoint"


def _history(state: Mapping[bytes, Any]) -> dict[int, tuple[Taken, ...]]:
    return {value_of(key): taken for key, taken in state.items()}


def _sent(history: History) -> set[Count]:
    """Return what bolts with these states have emitted."""
    return {Count(key, count, one[2], one[3]) for key, taken in history.items() for count, one in enumerate(taken, 1)}


def _check_rows(sink: Declared, above: str, history: History, *, dead: bool) -> None:
    """A sink that drops repeats has one row for each count of a key. What came last under its name fits the state."""
    captured: CapturedCounts = sink.prototype
    rows = Counter(captured.by_pair.values())
    twice = [row for row, times in rows.items() if times > 1]
    assert not twice, f"{sink.name!r} has under several names: {twice[:3]}"
    last = {(tup.origin, tup.identity): tup.record for tup in captured.tuples}
    sent = _sent(history)
    other = [record for record in last.values() if record not in sent]
    assert not other, f"{sink.name!r} got last what the state of {above!r} has not counted so: {other[:3]}"
    lacks = len(sent) - len(last)
    assert dead or not lacks, f"{sink.name!r} lacks {lacks} of what {above!r} has counted"


def _check_read(name: str, above: str, tallies: Mapping[str, History], *, dead: bool) -> None:
    """A bolt has counted what the one above it has emitted, and nothing else."""
    sent = _sent(tallies[above])
    read = {Count(*one) for taken in tallies[name].values() for one in taken}
    assert read <= sent, f"{name!r} has counted what {above!r} has not emitted: {[*(read - sent)][:3]}"
    assert dead or sent <= read, f"{name!r} lacks what {above!r} has emitted: {[*(sent - read)][:3]}"
