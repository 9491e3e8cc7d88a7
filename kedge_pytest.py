"""The test kit as a pytest plugin: its calls as fixtures, a seed from the command line, and a report of failed tests'
runs.

Every pytest run of an environment that has Kedge imports this file, and most of these suites do not use Kedge. So this
file imports nothing but pytest, prints nothing and changes nothing until a test asks for a fixture. It is at the root,
because a module in `topology` would import that package. `pytest -p no:kedge` leaves it out.
"""

import secrets
import sys
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    import pluggy

    from topology.testing.fixtures import NewCaptured, RunBolt, RunProcesses, RunTopology, VirtualTime

# the default: a suite that passes keeps passing until its code changes; "random" explores further seeds
SEED: Final = 0
SHARED: Final = "kedge_seed"  # the key by which processes of pytest-xdist get the seed
JOURNAL: Final = "topology.testing.history"  # imported only if a test has used the kit, by fixtures or not


# -- fixtures: session-scoped if they keep nothing, so that Hypothesis and fixtures of any scope can use them


@pytest.fixture(scope="session")
def kedge_seed(pytestconfig: pytest.Config) -> int:
    """The seed of this run's fixtures: 0, or the seed of `--kedge-seed`. Use it for a test's own randomness.

    A test that tries several seeds passes them to the calls: `run_topology(build(words), seed=seed)`.
    """
    return _seed(pytestconfig)


@pytest.fixture(scope="session")
def run_bolt(kedge_seed: int) -> "RunBolt":
    """`topology.testing.run_bolt`, with `kedge_seed` as its seed.

    def test_words_are_shouted(run_bolt: RunBolt) -> None:
        assert run_bolt(Shout(), [Word("a")]).well().outputs == [Word("A")]
    """
    testing = _kit()

    return partial(testing.run_bolt, seed=kedge_seed)


@pytest.fixture(scope="session")
def run_topology(kedge_seed: int) -> "RunTopology":
    """`topology.testing.run_topology`, with `kedge_seed` as its seed.

    def test_a_crash_loses_nothing(run_topology: RunTopology, captured: NewCaptured) -> None:
        words = captured(Word)
        report = run_topology(build(words), workers=2, crashes=[Crash("split", acked=10)])
        assert report.exit_status == 0 and len(words.distinct) == 300
    """
    testing = _kit()

    return partial(testing.run_topology, seed=kedge_seed)


@pytest.fixture
def run_processes(tmp_path: Path) -> "RunProcesses":
    """`topology.testing.run_processes`, with its state in `tmp_path`, so that a second run of the test resumes.

    def test_a_kill_loses_nothing(run_processes: RunProcesses) -> None:
        report = run_processes("words.py", crashes=[Crash("count", acked=100)])
        assert report.exit_status == 0 and report.restarts == 1
    """
    testing = _kit()

    return partial(testing.run_processes, state_dir=tmp_path / "kedge-state")


@pytest.fixture(scope="session")
def captured() -> "NewCaptured":
    """Return a function that makes sinks which keep their records: `alerts = captured(Alert)`."""
    testing = _kit()

    kind: Any = testing.Captured
    return lambda cls: kind[cls]()


@pytest.fixture(scope="session")
def virtual_time(kedge_seed: int) -> "VirtualTime":
    """Runs a coroutine on virtual time, with `kedge_seed`: minutes of timers take milliseconds.

    def test_a_minute_passes(virtual_time: VirtualTime) -> None:
        assert virtual_time(asyncio.sleep(60, "later")) == "later"
    """
    testing = _kit()

    return partial(testing.run_virtual, seed=kedge_seed)


def _kit() -> Any:
    """Return `topology.testing`. Imports `kedge` first, so that a user's `topology.py` is not taken for it."""
    import kedge  # noqa: F401  # the import makes our packages findable
    from topology import testing

    return testing


# -- the seed


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("kedge").addoption(
        "--kedge-seed",
        metavar="N",
        default=None,
        help="The seed of Kedge's fixtures: a whole number, 0 unless given, or 'random' for one that is drawn.",
    )


def pytest_configure(config: pytest.Config) -> None:
    shared = getattr(config, "workerinput", {}).get(SHARED)
    given = config.getoption("--kedge-seed") if shared is None else shared
    if given == "random":
        given = str(secrets.randbits(32))
    config.option.kedge_seed = given
    if given is None:
        return
    if not given.isdecimal():
        raise pytest.UsageError(f"--kedge-seed takes a whole number or 'random', not {given!r}")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give all processes of pytest-xdist the same seed."""
    node.workerinput[SHARED] = node.config.getoption("--kedge-seed")


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [f"kedge: seed {_seed(config)}"] if config.getoption("--kedge-seed") is not None else []


def _seed(config: pytest.Config) -> int:
    given = config.getoption("--kedge-seed")
    return SEED if given is None else int(given)


# -- the report of a failed test


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if (journal := sys.modules.get(JOURNAL)) is not None:
        journal.clear()


@pytest.hookimpl(hookwrapper=True)  # not `wrapper`: before pluggy 1.2 that would break every suite, ours or not
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> "Generator[None, pluggy.Result[pytest.TestReport], None]":
    report = (yield).get_result()
    if report.failed and (journal := sys.modules.get(JOURNAL)) is not None and (text := journal.summary()):
        report.sections.append(("Kedge's runs", text))
