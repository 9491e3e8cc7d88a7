"""The pytest plugin, as suites meet it: theirs that use the kit, and those that only share an environment with it."""

import inspect
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from topology import testing
from topology.testing import fixtures

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]

KIT = """
from collections.abc import Iterator
from topology import Bolt, Record, Topology
from topology.testing import Pause, ScriptedSpout

class Word(Record):
    text: str

class Shout(Bolt):
    def process(self, word: Word) -> Iterator[Word]:
        if word.text == "poison":
            raise ValueError("no such word")
        yield Word(word.text.upper())

def build(sink, *items):
    topology = Topology("shouting")
    words = topology.spout("words", ScriptedSpout(items, emits=[Word]))
    topology.bolt("sink", sink, topology.bolt("shout", Shout(), words.shuffle(), tasks=2).shuffle())
    return topology
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite of somebody's, in a folder of its own, with a kit of words."""
    pytester.makepyfile(kit=KIT)
    return pytester


def run(suite: pytest.Pytester, test: str, *options: str) -> pytest.RunResult:
    suite.makepyfile(test_it=test)
    return suite.runpytest_inprocess("-p", "no:asyncio", *options)


# -- suites that know nothing of Kedge


def test_a_suite_that_does_not_use_it_pays_for_no_import_and_sees_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_loaded():
            heavy = {"topology", "acker", "asyncio", "msgspec", "hypothesis", "zmq", "rich"}
            assert "kedge_pytest" in sys.modules
            assert heavy.isdisjoint(sys.modules), heavy & set(sys.modules)
        """
    )
    others = ("anyio", "asyncio", "timeout", "hypothesispytest")  # which import some of these, and are not Kedge's
    result = pytester.runpytest_subprocess(*(f"-pno:{name}" for name in others))
    result.assert_outcomes(passed=1)
    assert "kedge:" not in result.stdout.str().lower()


def test_loading_it_takes_less_than_five_milliseconds(tmp_path: Path) -> None:
    code = "import pytest, time; at = time.process_time(); import kedge_pytest; print(time.process_time() - at)"
    took = [
        float(subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(took) < 0.005, took


def test_it_can_be_left_out(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_it="def test_it(kedge_seed):\n    pass\n")
    result = suite.runpytest_subprocess("-pno:kedge", "-pno:asyncio")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'kedge_seed' not found*"])


def test_a_suites_own_fixtures_of_the_same_names_count(suite: pytest.Pytester) -> None:
    suite.makeconftest("import pytest\n\n@pytest.fixture\ndef captured():\n    return 'mine'\n")
    run(suite, "def test_it(captured):\n    assert captured == 'mine'\n").assert_outcomes(passed=1)


# -- fixtures


def test_each_fixture_is_a_call_of_the_kit(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import asyncio
        from kit import Shout, Word, build
        from topology.testing import Crash, Pause

        def test_run_bolt(run_bolt):
            assert run_bolt(Shout(), [Word("a")]).well().outputs == [Word("A")]

        def test_run_topology(run_topology, captured):
            words = captured(Word)
            items = [Word("a"), Word("b"), Pause(1), Word("c")]
            report = run_topology(build(words, *items), workers=2, crashes=[Crash("shout")])
            assert (report.exit_status, report.restarts) == (0, 1)
            assert sorted(word.text for word in words.distinct.values()) == ["A", "B", "C"]

        def test_virtual_time(virtual_time):
            assert virtual_time(asyncio.sleep(60, "later")) == "later"

        def test_seed(kedge_seed):
            assert kedge_seed == 0
        """,
    )
    result.assert_outcomes(passed=4)


def test_fixtures_and_async_tests_of_pytest_asyncio_live_together(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        test_it="""
        import asyncio
        from kit import Shout, Word

        def test_run_bolt(run_bolt):
            assert run_bolt(Shout(), [Word("a")]).well().outputs == [Word("A")]

        async def test_theirs():
            await asyncio.sleep(0)
        """
    )
    result = suite.runpytest_subprocess(
        "--asyncio-mode=auto", "-oasyncio_default_fixture_loop_scope=function", "-Werror"
    )
    result.assert_outcomes(passed=2)


def test_properties_of_hypothesis_and_fixtures_of_a_module_take_the_fixtures(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import asyncio
        import pytest
        from hypothesis import given, settings, strategies
        from kit import Shout, Word, build

        @settings(max_examples=5, deadline=None, database=None)
        @given(strategies.lists(strategies.just("a"), min_size=1, max_size=5))
        def test_words_are_shouted(run_bolt, run_topology, captured, virtual_time, kedge_seed, words):
            assert len(run_bolt(Shout(), map(Word, words)).well().outputs) == len(words)
            sink = captured(Word)
            run_topology(build(sink, *map(Word, words)))
            assert len(sink.records) == len(words)

        @pytest.fixture(scope="module")
        def shouted(run_bolt):
            return run_bolt(Shout(), [Word("a")])

        @pytest.mark.parametrize("seed", [1, 2])
        def test_shouted(shouted, run_bolt, seed):
            assert run_bolt(Shout(), [Word("a")], seed=seed).outputs == shouted.outputs
        """,
    )
    result.assert_outcomes(passed=3)


@pytest.mark.parametrize("fixture", ["RunBolt", "RunTopology", "RunProcesses"])
def test_the_type_of_a_fixture_says_what_its_function_takes(fixture: str) -> None:
    name = {"RunBolt": "run_bolt", "RunTopology": "run_topology", "RunProcesses": "run_processes"}[fixture]

    def parameters(call: Any) -> list[tuple[str, Any, Any]]:
        found = inspect.signature(call).parameters.values()
        return [(one.name, one.default, one.annotation) for one in found if one.name != "self"]

    assert parameters(getattr(fixtures, fixture).__call__) == parameters(getattr(testing, name))


def test_all_that_is_public_has_a_contract_with_an_example() -> None:
    public = [getattr(testing, name) for name in testing.__all__]
    calm = [one for one in public if not (isinstance(one, type) and issubclass(one, BaseException))]
    assert [one.__name__ for one in calm if "\n    " not in (inspect.getdoc(one) or "")] == []
    assert [one.__name__ for one in public if not one.__doc__] == []


def test_it_loads_where_pytest_is_7_0_and_pluggy_1_0_as_all_suites_of_the_environment_load_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hookimpl(
        *, hookwrapper: bool = False, optionalhook: bool = False, tryfirst: bool = False, trylast: bool = False
    ) -> Any:
        return lambda hook: hook

    monkeypatch.setattr(pytest, "hookimpl", hookimpl)
    assert runpy.run_path(str(ROOT / "kedge_pytest.py"))["SEED"] == 0


# -- the seed


SEEN = "def test_it(kedge_seed):\n    print('seen', kedge_seed)\n"


def test_the_seed_of_the_command_line_is_told_and_used(suite: pytest.Pytester) -> None:
    result = run(suite, SEEN, "--kedge-seed=42", "-s")
    result.stdout.fnmatch_lines(["kedge: seed 42", "*seen 42*"])


def test_a_random_seed_is_told_so_that_the_run_can_be_had_again(suite: pytest.Pytester) -> None:
    lines = run(suite, SEEN, "--kedge-seed=random", "-s").outlines
    (told,) = (line.removeprefix("kedge: seed ") for line in lines if line.startswith("kedge: seed "))
    assert any(f"seen {int(told)}" in line for line in lines)


@pytest.mark.parametrize("wrong", ["", "-1", "x", "1.5"])
def test_a_seed_that_is_none_is_refused_in_a_sentence(suite: pytest.Pytester, wrong: str) -> None:
    result = run(suite, SEEN, f"--kedge-seed={wrong}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --kedge-seed takes a whole number or 'random', not '{wrong}'"])


# -- what a failure tells


def test_a_test_that_fails_tells_the_seed_and_what_the_bolt_has_raised(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        from kit import Shout, Word

        def test_before(run_bolt):
            run_bolt(Shout(), [Word("before")])

        def test_it(run_bolt):
            assert run_bolt(Shout(), [Word("poison")]).outputs == [Word("POISON")]
        """,
        "--kedge-seed=7",
    )
    result.assert_outcomes(passed=1, failed=1)
    said = result.stdout.str()
    told = said.partition("- Kedge's runs -")[2]
    assert "kedge: run_bolt, seed 7: ended after" in told
    assert "  raised in 'bolt': ValueError: no such word" in told
    assert told.count("seed 7") == 1, "of the test that has failed, and of no other"


def test_a_crash_is_told_with_what_was_in_flight(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        from kit import Word, build
        from topology.testing import Captured, Crash, run_topology

        def test_it():
            report = run_topology(build(Captured(), Word("a"), Word("b")), workers=2, crashes=[Crash("sink")])
            assert report.restarts == 0
        """,
    )
    result.stdout.fnmatch_lines(
        ["*Kedge's runs*", "kedge: shouting, seed 0: ended after *", "  worker 0 crashed at 0.000 s; * pending*"]
    )


def test_a_run_that_never_ends_says_its_seed_and_where_it_stood(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        from kit import Word, build
        from topology.testing import Captured, Wait, run_topology

        def test_it():
            run_topology(build(Captured(), Word("a"), Wait()), seed=5, limit_s=10)
        """,
    )
    result.stdout.fnmatch_lines(["*VirtualTimeLimit: not done after 10 virtual seconds", "*seed 5: raised Virtual*"])


def test_a_users_annotations_pass_mypy_strict(tmp_path: Path) -> None:
    (tmp_path / "test_typed.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "test_typed.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # an editable install is not
    assert "test_typed.py:" not in done.stdout, done.stdout
    assert done.returncode in (0, 1), done.stdout + done.stderr


TYPED = """
import asyncio
from collections.abc import Iterator

from topology import Bolt, Message, Record, Topology
from topology.testing import (
    Crash, Fail, NewCaptured, Pause, RunBolt, RunProcesses, RunTopology, ScriptedSpout, Stop, VirtualTime
)


class Word(Record):
    text: str


class Shout(Bolt):
    def process(self, word: Word) -> Iterator[Word]:
        yield Word(word.text.upper())


def test_bolt(run_bolt: RunBolt) -> None:
    outputs: list[Word] = run_bolt(Shout(), [Word("a"), Pause(1)]).well().outputs
    assert outputs == [Word("A")]


def test_topology(run_topology: RunTopology, captured: NewCaptured, kedge_seed: int) -> None:
    words = captured(Word)
    topology = Topology("typed")
    stream = topology.spout("words", ScriptedSpout[Word]([Word("a"), Pause(1.5), Fail(ConnectionError())]))
    others = topology.spout("others", ScriptedSpout[Word]([Message(Word("a"), 1), Pause(1.5), Word("b"), Stop()]))
    topology.bolt("sink", words, stream.shuffle())
    topology.bolt("shout", Shout(), others.shuffle())
    report = run_topology(topology, workers=2, crashes=[Crash("sink", acked=1)])
    assert report.restarts == 1 and [word.text for word in words.distinct.values()] == ["a"]


def test_time(virtual_time: VirtualTime) -> None:
    text: str = virtual_time(asyncio.sleep(60, "later"))
    assert text == "later"


def test_processes(run_processes: RunProcesses) -> None:
    assert run_processes("words.py", crashes=[Crash(1)]).restarts == 1
"""
