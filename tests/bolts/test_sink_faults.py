"""Sinks in processes of their own: killed at random (F1), a full disk (F16, F17), an fsync that fails (F18)."""

import asyncio
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sink_kit import KINDS, Kind, Recorder, alert, feed, opened, until

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COUNT = 4_000


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    assert isinstance(request.param, Kind)
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alerts"


def command(kind: Kind, path: Path, *what: object) -> list[str]:
    return [sys.executable, str(HERE / "sink_process.py"), kind.name, str(path), *map(str, what)]


def started(arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        arguments, env={"PYTHONPATH": f"{ROOT}:{HERE}"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def told(arguments: list[str]) -> dict[str, Any]:
    """What the process says at its end."""
    out, err = started(arguments).communicate(timeout=60)
    assert out, err.decode()
    return dict(json.loads(out))


def numbers(kind: Kind, path: Path) -> list[int]:
    return sorted(row["failures"] for row in kind.rows(path))


async def test_f1_after_sigkills_at_random_moments_all_that_was_acked_is_there_and_the_rest_comes_once(
    kind: Kind, path: Path
) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    for _ in range(3):
        writing = started(command(kind, path, "crash", COUNT))
        assert writing.stdout is not None
        assert writing.stderr is not None
        acked = {int(writing.stdout.readline()) for _ in range(choose.randrange(1, COUNT))}
        writing.kill()
        acked |= {int(line) for line in writing.stdout.read().splitlines(keepends=True) if line.endswith(b"\n")}
        writing.wait()
        writing.stdout.close()
        writing.stderr.close()
        async with opened(kind.make(path)):  # recovers
            there = numbers(kind, path)
        assert acked <= set(there)
        assert len(there) == len(set(there))
    async with opened(kind.make(path)) as sink:
        out = await feed(sink, [alert(number) for number in range(1, COUNT + 1)])
        assert len(out.acked) == COUNT
    assert numbers(kind, path) == list(range(1, COUNT + 1))


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, 100, 40_000])
def test_f16_on_a_full_disk_the_sink_waits_nothing_fails_and_it_goes_on_when_there_is_room(
    kind: Kind, path: Path, room: int
) -> None:
    said = told(command(kind, path, "starve", room))
    assert str(path) in said["away"]
    assert said["acked"] < 1_999, "the limit was reached"
    assert (said["failed"], said["then"], said["stored"]) == ([], 1_999, 2_000)
    assert numbers(kind, path) == list(range(1, 2_001))


async def test_f19_a_folder_that_can_not_be_looked_into_is_waited_for_and_nothing_fails(
    kind: Kind, tmp_path: Path
) -> None:
    """Moved away, and a file took its place; a stale handle of a network's disk looks alike."""
    folder = tmp_path / "folder"
    folder.mkdir()
    async with opened(kind.make(folder / "alerts")) as sink:
        await feed(sink, [alert(1)])
        folder.rename(tmp_path / "aside")
        folder.touch()
        out = Recorder()
        feeding = asyncio.ensure_future(feed(sink, [alert(2)], out))
        await until(lambda: bool(sink.away or out.failed))
        assert not out.failed
        folder.unlink()
        (tmp_path / "aside").rename(folder)
        await feeding
    assert (len(out.acked), numbers(kind, folder / "alerts")) == (1, [1, 2])


@pytest.mark.slow
@pytest.mark.parametrize("nth", [1, 3, 12])
def test_f18_an_fsync_that_fails_once_ends_the_sink_and_the_next_process_stores_all_once(
    kind: Kind, path: Path, nth: int
) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    inject = f"inject=fsync,fdatasync:error=EIO:when={nth}"
    arguments = [strace, "-f", "-o", str(path.with_name("trace")), "-e", inject, *command(kind, path, "retry", 300)]
    process = started(arguments)
    out, err = process.communicate(timeout=60)
    if b"ptrace" in err or b"Operation not permitted" in err:
        pytest.skip("strace may not trace here")
    assert b"(INJECTED)" in path.with_name("trace").read_bytes()
    if not out:
        assert b"ConfigurationError" in err, "in `open` it is a sentence, and the run does not start"
        assert b"nput/output error" in err or b"disk I/O error" in err
        return
    said = json.loads(out)
    assert said["failed"] == [], "an fsync spends no replays"
    if said["acked"] != list(range(1, 301)):  # else it was that of the closing, which nobody was acked on
        assert "its store is broken" in said["broken"]
        assert set(said["acked"]) <= set(numbers(kind, path))
    again = told(command(kind, path, "retry", 300))
    assert again["acked"] == list(range(1, 301))
    assert numbers(kind, path) == list(range(1, 301))
