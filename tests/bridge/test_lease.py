"""A lease: a query whose driver is gone ends, and one whose driver is there goes on however long its batches take."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")

from bridge.files.lease import NAME, OVER_S, DriverGone, Lease


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("begun", [True, False])
def test_a_lease_that_nobody_renews_is_over_after_its_time_and_not_before(tmp_path: Path, begun: bool) -> None:
    clock = Clock()
    if begun:
        (tmp_path / NAME).write_text("1")
    lease = Lease(tmp_path, clock)
    lease.check()
    clock.now = OVER_S
    lease.check()
    clock.now = OVER_S + 0.1
    with pytest.raises(DriverGone, match="has not renewed"):
        lease.check()


def test_a_lease_that_is_renewed_goes_on(tmp_path: Path) -> None:
    clock = Clock()
    lease = Lease(tmp_path, clock)
    for number in range(10):
        clock.now += OVER_S
        (tmp_path / NAME).write_text(str(number))
        lease.check()


def test_a_driver_holds_its_lease_in_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    Lease(tmp_path / "query").hold()
    held = Lease(tmp_path / "query")
    while not (tmp_path / "query" / NAME).exists():
        held.check()
