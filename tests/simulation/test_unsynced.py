"""With `durability="process"` a loss of power takes what changed last, and nothing that was told (D4, D5, E2)."""

import sys
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # `tests` is not installed

from tests.simulation.power_cuts import MESSAGES
from tests.simulation.unsynced import BAD, Looked, live
from topology.runtime.state.garbage import Garbage
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Changes, KeptFloor

SEED = 4
SAMPLE = 8  # of each kind of moment


@pytest.mark.parametrize("cuts", [[], [900], [1_500]], ids=["at no time before", "early before", "late before"])
def test_at_each_moment_what_a_loss_of_power_leaves_has_what_was_told_and_no_row_goes_before_its_floor_D4_D5(
    cuts: list[int],
) -> None:
    """In the first run, and in the one that recovers."""
    lived, stored = live(SEED, cuts, Looked)
    assert isinstance(stored, Looked)
    assert len(lived.operations) == 1 + len(cuts)
    assert min(stored.looked[one] for one in ("announced", "letters", "gone")) > 10, stored.looked


def test_wherever_the_power_fails_each_message_is_processed_or_dead_and_none_counts_twice_D4_D5_E2() -> None:
    """At syncs, which are not done, right after them, and anywhere between."""
    whole, stored = live(SEED, [])
    assert sum(one.count for one in stored.state.values()) == MESSAGES - len(BAD), "and where it never fails, all count"
    (operations,) = whole.operations
    syncs = [n for n, operation in enumerate(operations, 1) if operation == "sync"]
    random = Random(SEED)
    at = {*random.sample(syncs, SAMPLE), *(n + 1 for n in random.sample(syncs, SAMPLE))}
    for cut in sorted(at | {*random.sample(range(1, len(operations)), SAMPLE)}):
        try:
            lived, _ = live(SEED, [cut])
        except Exception as error:
            raise AssertionError(f"seed {SEED}, cut at operation {cut}: {error}") from error
        assert len(lived.operations) == 2, "it has hit nothing"


# -- planted: or these tests could not fail


def test_what_is_told_before_it_is_synced_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncs that do nothing, from some moment on: it decides what is told first."""
    sync, found = SqliteStore.sync, set[str]()
    for synced in range(10):
        left = [sync] * synced
        monkeypatch.setattr(SqliteStore, "sync", lambda store, left=left: left.pop()(store) if left else None)
        with pytest.raises(AssertionError) as raised:
            live(SEED, [], Looked)
        found |= {one for one in ("ahead of what is", "letters were told", "is announced") if one in str(raised.value)}
    assert len(found) == 3, found


def test_rows_that_leave_before_their_floor_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    gather = Garbage.gather
    held: dict[Garbage, list[KeptFloor]] = {}

    def late(forgetting: Garbage, changes: Changes) -> None:
        """The floors of this time are those of the next."""
        gather(forgetting, changes)
        if changes.floors:
            held[forgetting], changes.floors = changes.floors, held.get(forgetting, [])

    monkeypatch.setattr(Garbage, "gather", late)
    with pytest.raises(AssertionError, match="is gone, and its input is new"):
        live(SEED, [], Looked)
