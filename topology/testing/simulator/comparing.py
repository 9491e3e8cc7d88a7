"""Compares the rows of a simulated run's `Captured` with those of a run without faults.

Where outputs are named by their inputs, each (origin, identity) must be there, and no other. Outputs of bolts with
state whose durability is not "disk" are named by their count. Then rows are compared by their content, each as often as
it is there: a row that is stored under two names is one too many. A run that has gone back may have computed some
results again: those of a bolt that draws may differ then, and so may those that depend on an order.

Must not know faults.
"""

import enum
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from topology.checks.instance_state import kept
from topology.dead_letters import DeadLetter
from topology.graph import Graph
from topology.testing.captured import Captured
from topology.testing.simulator.expected import CapturedRows, Peace, captured_of
from topology.testing.simulator.graph import (
    above,
    is_drawn_before,
    is_drawn_before_state,
    is_kept_before,
    is_lost_before,
    is_named_by_count,
)

SHOWN_MAX: Final = 3


class Names(enum.Enum):
    """The names that a row may be recognised by."""

    PAIR = "its origin and identity"
    RECORD = "its record"
    CONTENT = "its record, and how many of that there are"
    NUMBER = "nothing: only how many there are is compared"

    def keys(self, rows: CapturedRows) -> dict[Any, Any]:
        """Return the records of these rows by what they are recognised by."""
        if self is Names.PAIR:
            return rows.by_pair
        if self is Names.RECORD:
            return {record: record for record in rows.by_pair.values()}
        counts = Counter[Any]()
        found = {}
        for record in rows.by_pair.values():
            key = record if self is Names.CONTENT else None
            counts[key] += 1
            found[key, counts[key]] = record
        return found


def compare(topology: Graph, peace: Peace, *, always: bool | None, memory_lost: bool, went_back: bool) -> None:
    """Raise AssertionError unless all rows are as without faults.

    always       True: records must be equal; False: they need not; None: they must where nothing they depend on is
    lost. memory_lost  A worker has died, with what is only in its memory. went_back    The run has gone back beyond
    outputs that had left.
    """
    for name, captured in captured_of(topology).items():
        exact = not (memory_lost and is_lost_before(topology, name)) if always is None else always
        _check_stable(topology, name, captured, exact=exact, went_back=went_back)
        if captured.by_record and not exact:
            continue
        wanted, got = peace.rows[name], CapturedRows.of(captured)
        # a letter's identity includes its name, which may differ between two runs
        if _letters(wanted.by_pair) or _letters(got.by_pair):
            if lacks := _letters(wanted.by_pair) - _letters(got.by_pair):
                raise AssertionError(f"{name!r} lacks the letters of {sorted(lacks)[:SHOWN_MAX]}")
            continue
        names = _names(topology, name, captured, exact=exact)
        again = went_back and is_drawn_before_state(topology, name)  # each draw may have rows of its own
        missing, more = _differing(name, peace, got, names)
        if missing:
            there = len(names.keys(wanted))
            raise AssertionError(f"{name!r} lacks {len(missing)} of {there}: {missing[:SHOWN_MAX]}")
        if more and not again:
            raise AssertionError(
                f"{name!r} has {len(more)} that it should not: {more[:SHOWN_MAX]}\n{_why(topology, name)}"
            )
        if names is Names.PAIR and exact and (always or not is_drawn_before(topology, name)):
            _check_same(topology, name, wanted, got)


def _names(topology: Graph, name: str, captured: Captured[Any], *, exact: bool) -> Names:
    if captured.by_record:
        return Names.RECORD
    if not is_named_by_count(topology, name):
        return Names.PAIR
    own = type(captured).compared is not Captured.compared  # what of a record is the same in all runs
    return Names.CONTENT if own or (exact and not is_drawn_before(topology, name)) else Names.NUMBER


def _differing(name: str, peace: Peace, got: CapturedRows, names: Names) -> tuple[list[Any], list[Any]]:
    """Return the missing records and the extra records. Effects of dead messages count as neither (A6)."""
    wanted, there = names.keys(peace.rows[name]), names.keys(got)
    missing = {key: record for key, record in wanted.items() if key not in there}
    more = {key: record for key, record in there.items() if key not in wanted}
    if missing:
        owed = names.keys(peace.owed(name))
        missing = {key: record for key, record in missing.items() if key in owed}
    if more:
        for rows in peace.allowed(name, by_record=names is not Names.PAIR):
            allowed = names.keys(rows)
            more = {key: record for key, record in more.items() if key not in allowed}
            if not more:
                break
    return [*missing.values()], [*more.values()]


def _check_same(topology: Graph, name: str, wanted: CapturedRows, got: CapturedRows) -> None:
    there = got.by_pair
    other = [(one, there[key]) for key, one in wanted.by_pair.items() if there.get(key, one) != one]
    if other:
        found = "; ".join(f"{one} in place of {record}" for record, one in other[:SHOWN_MAX])
        raise AssertionError(
            f"{name!r} has {len(other)} records that are not the same: {found}\n{_why(topology, name)}"
        )


def _check_stable(topology: Graph, name: str, captured: Captured[Any], *, exact: bool, went_back: bool) -> None:
    """Check that an output is the same in all runs, under its name (D1, D2, B2)."""
    if went_back:
        same = exact and not captured.by_record and not is_drawn_before(topology, name)
    else:
        same = (exact and not captured.by_record) or is_kept_before(topology, name)
    if same and captured.unstable:
        firsts = {(tup.origin, tup.identity): tup.record for tup in reversed(captured.tuples)}
        shown = [(firsts[tup.origin, tup.identity], tup.record) for tup in captured.unstable[:SHOWN_MAX]]
        raise AssertionError(f"{name!r} got one key with two records: {shown}\n{_why(topology, name)}")


def _letters(rows: Mapping[Any, Any]) -> set[tuple[str, str, str]]:
    """Return the messages of these dead letters."""
    letters = [record for record in rows.values() if isinstance(record, DeadLetter)]
    return {(letter.spout, letter.partition, letter.message_id) for letter in letters}


def _why(topology: Graph, name: str) -> str:
    """Return a hint about components whose outputs are not a function of the messages."""
    keeping = {component.name: found for component in above(topology, name) if (found := kept(component))}
    if keeping:
        where = ", ".join(f"{bolt!r} (self.{', self.'.join(found)})" for bolt, found in keeping.items())
        return f"a replay changes once more what a bolt keeps in its attributes: {where}; take `state` for it"
    return (
        "a bolt before it gives another output for the same input when that is replayed: by a clock, a random number, "
        "the order of a set, or the order in which inputs come. Where that is meant: exact=False, and "
        "Captured(by_record=True) where identities hang on it too"
    )
