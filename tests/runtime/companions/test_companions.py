"""Processes beside a run: started with it, started again when they die, ended with it, and never left behind.

Embedded and on worker processes alike; the companions are real programs that go wrong in one way each.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from companion_kit import PATIENCE_S, Beside, gone, made, through

from topology import ConfigurationError
from topology.codes.runtime import COMPANION_FAILED, COMPANION_LAUNCH_RAISED, TOO_MANY_COMPANION_DEATHS
from topology.errors import WorkerError
from topology.runtime.companions import companions
from topology.runtime.companions import guard as guarding
from topology.testing import run_topology

KEDGE = Path(sys.executable).parent / "kedge"
KINDS = pytest.mark.parametrize("workers", [1, 2])


@KINDS
def test_one_that_dies_is_started_again_and_both_are_told(tmp_path: Path, workers: int) -> None:
    beside = Beside(tmp_path, "dying once", workers=workers)

    async def main() -> None:
        async def during() -> None:
            await beside.until((tmp_path / "settled").exists, "the second life")
            first, second = beside.lives()
            assert first != second
            assert [gone(pid) for pid in first] == [True, True]  # what it had started has gone with it
            assert [gone(pid) for pid in second] == [False, False]

        report = await through(beside, during)
        assert (report.ended, report.exit_status) == ("ended", 0)

    asyncio.run(main())
    assert beside.all_gone()
    (death,) = [line for line in beside.told if "SIGKILL" in line]
    assert death.startswith("helper: it (pid ")
    assert "was killed by SIGKILL; it is started again" in death
    assert "helper: | the first one had trouble" in beside.told
    assert sum("it is ready, after" in line for line in beside.told) == 2


@KINDS
def test_one_that_dies_again_and_again_ends_the_run_after_its_back_offs(tmp_path: Path, workers: int) -> None:
    beside = Beside(tmp_path, "dying", workers=workers, max_restarts=3)

    async def main() -> None:
        report = await through(beside, lambda: beside.until(lambda: False, "the end"))
        assert (report.ended, report.exit_status) == ("failed", 1)
        assert isinstance(report.error, WorkerError)
        assert report.error.code is TOO_MANY_COMPANION_DEATHS
        assert "ended with status 3" in str(report.error)
        assert "max_restarts = 3" in str(report.error)

    asyncio.run(main())
    assert len(beside.lives()) == 4
    assert beside.all_gone()
    again = [line for line in beside.told if "it is started again" in line]
    assert [line.partition("started again")[2].partition(" (K")[0] for line in again] == ["", " in 0.1 s", " in 0.2 s"]
    last = [line for line in beside.told if "of its trouble" in line][-companions.LAST_MAX :]
    assert last == [f"helper: | line {number} of its trouble" for number in range(20, 30)]


@KINDS
def test_one_that_has_failed_ends_the_run_with_its_sentence(tmp_path: Path, workers: int) -> None:
    beside = Beside(tmp_path, "failing", workers=workers)

    async def main() -> None:
        report = await through(beside, lambda: beside.until(lambda: False, "the end"))
        assert (report.ended, report.exit_status) == ("failed", 1)
        assert isinstance(report.error, WorkerError)
        assert report.error.code is COMPANION_FAILED
        assert str(report.error).startswith("helper: there is no Java: install one\\x1b[31m")  # S11

    asyncio.run(main())
    assert len(beside.lives()) == 1  # it is not started again
    assert beside.all_gone()


def test_the_command_says_why_and_ends_with_status_1(tmp_path: Path) -> None:
    done = kedge(tmp_path, "failing")
    try:
        assert done.wait(PATIENCE_S * 2) == 1
        assert "helper: there is no Java: install one" in (tmp_path / "said").read_text()
        assert "(K551" in (tmp_path / "said").read_text()
    finally:
        killed(done)


@KINDS
def test_one_that_ignores_sigterm_is_killed_with_all_that_it_has_started(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (companions, sys.modules["topology.runtime.supervisor.supervisor"]):
        monkeypatch.setattr(module, "STOP_S", 0.5)
    monkeypatch.setattr(companions.Companions.close, "__defaults__", (0.5,))
    beside = Beside(tmp_path, "stubborn", workers=workers)

    async def main() -> None:
        report = await through(beside, lambda: beside.until((tmp_path / "settled").exists, "its beginning"))
        assert (report.ended, report.exit_status) == ("ended", 0)
        assert beside.all_gone()

    asyncio.run(main())


@KINDS
def test_one_that_ends_when_it_is_told_to_is_waited_for(tmp_path: Path, workers: int) -> None:
    beside = Beside(tmp_path, "well", workers=workers)

    async def main() -> None:
        report = await through(beside, lambda: beside.until((tmp_path / "settled").exists, "its beginning"))
        assert (tmp_path / "asked-to-end").exists()
        assert (report.ended, report.exit_status) == ("ended", 0)
        assert beside.all_gone()

    asyncio.run(main())
    given = f"helper: status {'a gift' * 50_000}"[: companions.LINE_MAX + 8].replace("status ", "given ")
    assert any(line.startswith(given[:1_000]) for line in beside.told)


@KINDS
def test_one_that_never_says_that_it_is_ready_is_told_of(tmp_path: Path, workers: int) -> None:
    beside = Beside(tmp_path, "silent", workers=workers, starting_s=0.3)

    async def main() -> None:
        await through(beside, lambda: beside.until_told("it did not report within 0.3 s that it is ready"))

    asyncio.run(main())
    assert sum("did not report" in line for line in beside.told) == 1
    assert str(beside.log) in next(line for line in beside.told if "did not report" in line)


def test_one_that_is_done_is_left_alone(tmp_path: Path) -> None:
    beside = Beside(tmp_path, "done", workers=1)

    async def main() -> None:
        async def during() -> None:
            await beside.until_told("it is done, and has ended")
            before = beside.run.snapshot()
            assert before is not None
            emitted = before.total("emitted")

            def on() -> bool:
                now = beside.run.snapshot()
                return now is not None and now.total("emitted") > emitted + 20

            await beside.until(on, "further ticks")  # half a second, in which a restart would have come

        assert (await through(beside, during)).exit_status == 0

    asyncio.run(main())
    assert len(beside.lives()) == 1


def test_what_it_writes_to_stderr_is_kept_within_a_bound(tmp_path: Path) -> None:
    beside = Beside(tmp_path, "chatty", workers=1)

    async def main() -> None:
        await through(beside, lambda: beside.until((tmp_path / "all-written").exists, "all of it"))

    asyncio.run(main())
    files = sorted(beside.log.parent.iterdir())
    assert [one.name for one in files] == ["helper.log", "helper.log.1"]
    assert max(one.stat().st_size for one in files) <= guarding.LOG_BYTES_MAX
    assert sum(one.stat().st_size for one in files) > guarding.LOG_BYTES_MAX  # 9 MB came, and the last are there
    assert {one.stat().st_mode & 0o777 for one in files} == {0o600}


@KINDS
@pytest.mark.parametrize(
    ("what", "kind", "text"),
    [
        ("refused", ConfigurationError, "the helper needs a port; give it one"),
        ("raising", WorkerError, "the companion 'helper' could not be launched: KeyError"),
    ],
)
def test_one_that_can_not_be_launched_keeps_the_run_from_beginning(
    tmp_path: Path, workers: int, what: str, kind: type[Exception], text: str
) -> None:
    async def main() -> None:
        await Beside(tmp_path, what, workers=workers).begun()

    with pytest.raises(kind, match=text) as caught:
        asyncio.run(main())
    assert what != "raising" or getattr(caught.value, "code", None) is COMPANION_LAUNCH_RAISED


def test_a_program_that_is_not_there_is_named_in_its_last_lines(tmp_path: Path) -> None:
    beside = Beside(tmp_path, "nowhere", workers=1, max_restarts=0)

    async def main() -> None:
        report = await through(beside, lambda: beside.until(lambda: False, "the end"))
        assert report.ended == "failed"
        assert "ended with status 127" in str(report.error)

    asyncio.run(main())
    assert "helper: | /no/such/program can't be run: No such file or directory" in beside.told


def kedge(folder: Path, what: str, *more: str) -> "subprocess.Popen[bytes]":
    topology = folder / "app.py"
    topology.write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[1] / 'kits')!r})\nfrom companion_kit import made\n"
        f"topology = made({str(folder)!r}, {what!r})\n"
    )
    command = [str(KEDGE), "run", str(topology), "--state-dir", str(folder / "state"), *more]
    with (folder / "said").open("ab") as said:
        return subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True, cwd=folder)


def killed(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


@pytest.mark.parametrize("more", [(), ("--workers", "2")])
@pytest.mark.parametrize("what", ["well", "stubborn"])
def test_no_orphan_stays_when_the_run_is_killed(tmp_path: Path, what: str, more: tuple[str, ...]) -> None:
    process = kedge(tmp_path, what, *more)
    try:
        wait((tmp_path / "settled").exists, tmp_path)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert len(pids) == 2
        assert not any(map(gone, pids))
        os.kill(process.pid, signal.SIGKILL)  # the run alone, and not its group
        wait(lambda: all(map(gone, pids)), tmp_path)
    finally:
        killed(process)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows which processes are stopped")
def test_no_orphan_stays_when_the_run_is_killed_while_it_and_the_guard_are_stopped(tmp_path: Path) -> None:
    process = kedge(tmp_path, "well")
    try:
        wait((tmp_path / "settled").exists, tmp_path)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        guard = os.getpgid(pids[0])
        for pid in (process.pid, guard):
            os.kill(pid, signal.SIGSTOP)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
        wait(lambda: all(map(gone, pids)), tmp_path)
    finally:
        killed(process)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(guard, signal.SIGKILL)


def test_no_orphan_stays_when_its_guard_is_killed(tmp_path: Path) -> None:
    """As the system may do it, which is short of memory: then the companion is gone, and is started again."""
    beside = Beside(tmp_path, "well", workers=1)

    async def main() -> None:
        async def during() -> None:
            await beside.until((tmp_path / "settled").exists, "its beginning")
            (first,) = beside.lives()
            os.kill(os.getpgid(first[0]), signal.SIGKILL)
            await beside.until(lambda: len(beside.lives()) == 2, "the second life")
            assert [gone(pid) for pid in first] == [True, True]

        assert (await through(beside, during)).exit_status == 0

    asyncio.run(main())
    assert beside.all_gone()


def test_a_drain_by_a_signal_ends_it_too(tmp_path: Path) -> None:
    process = kedge(tmp_path, "well")
    try:
        wait((tmp_path / "settled").exists, tmp_path)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
        assert (tmp_path / "asked-to-end").exists()
        assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())
    finally:
        killed(process)


def test_on_virtual_time_none_is_started(tmp_path: Path) -> None:
    (tmp_path / "end").touch()
    assert run_topology(made(str(tmp_path), "well")).exit_status == 0
    assert not (tmp_path / "pids").exists()


def wait(condition: "object", folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    assert callable(condition)
    while not condition():
        assert time.monotonic() < deadline, (folder / "said").read_text()
        time.sleep(0.01)
