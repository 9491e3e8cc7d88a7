"""Types of the plugin's fixtures, for annotations: each is a call of the kit, with its signature. No behaviour."""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from topology.components import A, Out, R, Runs
from topology.config import Config
from topology.runtime.links.memory import Faults, faultless
from topology.runtime.run.report import Report
from topology.testing.captured import Captured
from topology.testing.run_bolt import BoltRun
from topology.testing.run_processes import ProcessReport
from topology.testing.run_topology import During
from topology.testing.scripted import Pause
from topology.testing.virtual_time.crashing_run import Crash
from topology.testing.virtual_time.loop import LIMIT_S, START
from topology.testing.virtual_time.worker import Watch
from topology.topology import Topology

T = TypeVar("T")


class RunBolt(Protocol):
    """The fixture `run_bolt`: see the function of that name.

    def test_words_are_shouted(run_bolt: RunBolt) -> None:
        assert run_bolt(Shout(), [Word("a")]).well().outputs == [Word("A")]
    """

    def __call__(
        self,
        bolt: Runs[A, Out],
        inputs: Iterable[A | Pause],
        *,
        by: tuple[str, ...] = (),
        state: Mapping[Any, Any] | None = None,
        every: str | None = None,
        until_s: float = 0.0,
        concurrency: int = 1,
        seed: int | None = 0,
        start: datetime = START,
        config: Config | None = None,
    ) -> BoltRun[A, Out]: ...


class RunTopology(Protocol):
    """The fixture `run_topology`: see the function of that name.

    def test_a_crash_loses_nothing(run_topology: RunTopology, captured: NewCaptured) -> None:
        words = captured(Word)
        assert run_topology(build(words), workers=2, crashes=[Crash(1)]).exit_status == 0
    """

    def __call__(
        self,
        topology: Topology,
        *,
        seed: int | None = 0,
        replay_all: bool = False,
        until_s: float | None = None,
        during: During | None = None,
        state_dir: str | Path | None = None,
        workers: int = 1,
        crashes: Sequence[Crash] = (),
        may_crash: bool = False,
        faults: Faults = faultless,
        start: datetime = START,
        limit_s: float = LIMIT_S,
        watch: Watch | None = None,
    ) -> Report: ...


class RunProcesses(Protocol):
    """The fixture `run_processes`: see the function of that name.

    def test_a_kill_loses_nothing(run_processes: RunProcesses) -> None:
        assert run_processes("words.py", crashes=[Crash(1, acked=100)]).restarts == 1
    """

    def __call__(
        self,
        target: str | Path,
        *,
        set: Mapping[str, object] | None = None,
        config: Mapping[str, object] | None = None,
        workers: int = 2,
        crashes: Sequence[Crash] = (),
        when: Callable[[], bool] | None = None,
        state_dir: str | Path | None = None,
        within_s: float = 60.0,
    ) -> ProcessReport: ...


class NewCaptured(Protocol):
    """The fixture `captured`: makes a sink for records of this class.

    def test_words(captured: NewCaptured) -> None:
        words = captured(Word)
    """

    def __call__(self, cls: type[R], /) -> Captured[R]: ...


class VirtualTime(Protocol):
    """The fixture `virtual_time`: see `run_virtual`.

    def test_a_minute_passes(virtual_time: VirtualTime) -> None:
        assert virtual_time(asyncio.sleep(60, "later")) == "later"
    """

    def __call__(
        self,
        coroutine: Coroutine[Any, Any, T],
        *,
        seed: int | None = 0,
        start: datetime = START,
        limit_s: float = LIMIT_S,
    ) -> T: ...
