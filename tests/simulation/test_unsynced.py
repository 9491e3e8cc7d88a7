"""At each moment of a run, what was told is on the disk: with each durability, also in a run that recovers."""

import asyncio
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # `tests` is not installed

from tests.simulation.power_cuts import DURABILITIES, CutDisk, Durability
from tests.simulation.unsynced import live
from topology.runtime.checkpoints.coordinator import Coordinator
from topology.runtime.checkpoints.log_commit import LogCommit
from topology.testing.simulator.disk import FileNode

SEED = 4
UNENDED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of runs that fail midway


@pytest.mark.slow
@pytest.mark.parametrize("cut", [0, 700], ids=["at no time before", "before"])
@pytest.mark.parametrize("durability", DURABILITIES)
def test_what_a_loss_of_power_leaves_at_each_moment_is_no_less_than_what_was_told_p5_p8_p10_p11(
    durability: Durability, cut: int
) -> None:
    """With "process": what a death of all processes leaves."""
    lived, stored = live(SEED, [cut] if cut else [], durability)
    assert len(lived.operations) == 1 + bool(cut)
    kinds = ("decided", "letters", "settled", *(["left"] if durability != "checkpoint" else []))
    assert min(stored.looked[one] for one in kinds) > 50, stored.looked


# -- planted: or these tests could not fail


@UNENDED
def test_syncs_that_do_nothing_are_found_p5_p8(monkeypatch: pytest.MonkeyPatch) -> None:
    def synced(disk: CutDisk, node: FileNode) -> None:
        disk.done.append("sync")

    monkeypatch.setattr(CutDisk, "sync", synced)
    with pytest.raises(Exception, match=r"was told to be decided|has left|is missing|state\.json"):
        live(SEED, [], "disk")


@UNENDED
def test_outputs_that_leave_before_their_records_are_synced_are_found_p8(monkeypatch: pytest.MonkeyPatch) -> None:
    release = LogCommit._release
    monkeypatch.setattr(LogCommit, "_release", lambda log, position: release(log, log._position))
    with pytest.raises(AssertionError, match="has left, and kept is"):
        live(SEED, [], "disk")


@UNENDED
def test_a_decision_that_is_told_before_it_is_durable_is_found_p5(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Coordinator._taken

    async def told_first(coordinator: Coordinator, *args: object) -> None:
        decide = coordinator._decide

        async def later(checkpoint: int) -> None:
            asyncio.get_running_loop().call_later(0.05, lambda: asyncio.ensure_future(decide(checkpoint)))

        coordinator._decide = later
        try:
            await taken(coordinator, *args)  # type: ignore[arg-type]
        finally:
            coordinator._decide = decide

    monkeypatch.setattr(Coordinator, "_taken", told_first)
    with pytest.raises(AssertionError, match="was told to be decided"):
        live(SEED, [], "disk")
