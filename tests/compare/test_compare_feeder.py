"""The feeder: in time, told how late it was, and gone with who has started it."""

import os
import signal
import time
from pathlib import Path

import pytest
from measured_kit import until

from bridge.compare.processes import environment, new_mark
from bridge.compare.workload.feeder import FIFO, FeederError, Feeding, make, mapped


def feeding(folder: Path) -> Feeding:
    make(folder, 1)
    return Feeding(folder, 1, environment(new_mark()))


def answered(one: Feeding) -> dict[str, float]:
    found: list[dict[str, float]] = []

    def asked() -> bool:
        answer = one.answer()
        if answer is not None:
            found.append(answer)
        return bool(found)

    until(asked, "the feeder never answered")
    return found[0]


def test_it_releases_by_its_schedule_and_wakes_who_waits(tmp_path: Path) -> None:
    one = feeding(tmp_path)
    reading = os.open(tmp_path / f"{FIFO}0", os.O_RDONLY | os.O_NONBLOCK)
    try:
        numbers = mapped(tmp_path)
        start = time.monotonic() + 0.05
        one.release(100, 500.0, start)
        late = answered(one)
        assert time.monotonic() >= start + 99 / 500
        assert [*numbers] == [100, 0]
        assert 0 <= late["p50"] <= late["p99"] <= late["max"]
        assert len(os.read(reading, 65_536)) <= 100
        one.end()
        assert [*numbers] == [100, 1]
        one.close()
        until(lambda: os.read(reading, 100) == b"", "its end of the FIFO stays open")
    finally:
        os.close(reading)
        one.close()


def test_what_is_late_is_released_at_once_and_told(tmp_path: Path) -> None:
    one = feeding(tmp_path)
    try:
        one.release(1_000, 1_000.0, time.monotonic())
        until(lambda: mapped(tmp_path)[0] > 100, "it has not begun")
        os.kill(one.pid, signal.SIGSTOP)
        time.sleep(0.3)  # for so long it stands: nothing else is waited for
        os.kill(one.pid, signal.SIGCONT)
        late = answered(one)
        assert late["max"] >= 250
        assert late["p50"] <= 350
    finally:
        one.close()


def test_a_rate_that_it_cant_make_is_seen_in_its_lag(tmp_path: Path) -> None:
    one = feeding(tmp_path)
    try:
        one.release(2_000_000, 50_000_000.0, time.monotonic())
        assert answered(one)["p50"] > 1
    finally:
        one.close()


def test_a_feeder_that_has_gone_is_told(tmp_path: Path) -> None:
    one = feeding(tmp_path)
    try:
        os.kill(one.pid, signal.SIGKILL)
        with pytest.raises(FeederError, match=r"the feeder (has ended|was lost)"):
            one.end()
    finally:
        one.close()


def test_only_the_last_command_has_an_answer_whether_or_not_those_before_were_waited_for(tmp_path: Path) -> None:
    one = feeding(tmp_path)
    try:
        one.release(1, None, 0.0)
        until(lambda: mapped(tmp_path)[0] == 1, "it has not begun")
        start = time.monotonic()
        one.release(101, 500.0, start)
        assert "p50" in answered(one)
        assert time.monotonic() >= start + 99 / 500
        assert one.answer() is None
    finally:
        one.close()
