"""The script: messages of a topology's own spouts, read once, bounded; and what is said where there are none."""

from pathlib import Path

import pytest
from measured_kit import COUNTING, counting, job_of

from bridge.compare.job import ComparisonJob
from bridge.compare.processes import new_mark
from bridge.compare.workload import prepare
from bridge.compare.workload.prepare import OFFERED_MAX, counts_of, offer_of, read
from bridge.compare.workload.script import Script, SourceTurns
from topology.errors import ConfigurationError


def script_of(job: ComparisonJob, folder: Path) -> Script:
    folder.mkdir()
    return read(job, offer_of(job), folder, new_mark())


def test_no_more_is_read_of_an_endless_source_than_is_offered(tmp_path: Path) -> None:
    script = script_of(job_of(counting(tmp_path)), tmp_path / "script")
    assert (script.held, script.count, script.warm) == (501, 501, 101)
    assert [script.record(number).value for number in (0, 1, 500)] == [0, 1, 500]  # type: ignore[attr-defined]
    assert script.text(7) == '{"value": 7}'
    assert script.due_ns(script.warm, 5) == 5
    assert script.due_ns(script.warm + 200, 0) == 1_000_000_000


def test_what_a_short_source_has_comes_round_again(tmp_path: Path) -> None:
    script = script_of(job_of(counting(tmp_path), "count=20"), tmp_path / "script")
    assert script.held == 20
    assert script.record(47).value == 7  # type: ignore[attr-defined]
    assert any("20 messages and ended; these were offered" in note for note in script.notes)


@pytest.mark.parametrize(
    ("fail", "said"),
    [
        ("open", "the spout 'numbers' raised RuntimeError: the tape is torn while opening it"),
        ("poll", "the spout 'numbers' raised RuntimeError: the tape has ended in noise while reading it"),
    ],
)
def test_a_spout_that_raises_is_named_with_what_it_said(tmp_path: Path, fail: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        script_of(job_of(counting(tmp_path), f"fail={fail}"), tmp_path / "script")
    assert said in str(caught.value)
    assert str(caught.value.code) == "K706"
    assert "fifths.py" in caught.value.users_trace()


def test_a_spout_that_ends_without_a_message_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'numbers' ended without a message"):
        script_of(job_of(counting(tmp_path), "count=0"), tmp_path / "script")


def test_a_spout_that_stays_silent_is_told_within_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "FIRST_S", 0.5)
    with pytest.raises(ConfigurationError, match="'numbers' gave no message within some seconds"):
        script_of(job_of(counting(tmp_path), "fail=silent"), tmp_path / "script")


def test_a_file_that_is_not_there_is_the_sources_own_sentence(tmp_path: Path) -> None:
    target = Path(__file__).resolve().parents[2] / "examples" / "ssh_alerts.py"
    with pytest.raises(ConfigurationError, match=r"no-such\.log"):
        script_of(job_of(target, f"path={tmp_path / 'no-such.log'}"), tmp_path / "script")


def test_a_topology_with_processes_beside_it_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "beside.py"
    target.write_text(
        COUNTING
        + """
from topology.companions import Companion, Launch


class Beside(Companion):
    name = "beside"

    def launch(self, folder):
        return Launch(("true",), {})


plain = topology


def topology() -> Topology:
    made = plain()
    made.companion(Beside())
    return made
"""
    )
    with pytest.raises(ConfigurationError, match="has companions \\('beside'\\)") as caught:
        offer_of(job_of(target))
    assert str(caught.value.code) == "K705"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("never", "messages in flight are lost if a worker dies."),
        ("other ids", "a replayed message may be counted twice."),
    ],
)
def test_of_a_spout_that_can_not_give_again_as_it_was_it_is_said_what_a_run_of_its_own_would_lose(
    tmp_path: Path, given: str, said: str
) -> None:
    target = counting(tmp_path)
    asked = offer_of(job_of(target))
    assert asked.notes == ()
    target.write_text(
        COUNTING.replace("class Numbers(Spout):", f"class Numbers(Spout):\n    given_again = {given!r}\n")
    )
    offer = offer_of(job_of(target))
    (note,) = offer.notes
    assert note.startswith("The spout 'numbers' ")
    assert "so the comparison replaces it with a source" in note
    assert note.endswith(said)
    assert note in script_of(job_of(target, "count=20"), tmp_path / "script").notes


def test_more_messages_than_fit_are_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigurationError, match="the maximum is 3,000,000") as caught:
        counts_of(ComparisonJob("x", rate=1e6, seconds=OFFERED_MAX / 1e6))
    assert str(caught.value.code) == "K707"


def test_messages_of_several_sources_keep_their_turns() -> None:
    turns = SourceTurns([1, 4], held=5)
    numbers = [turns.number(place) for place in range(6)]
    assert numbers == [1, 4, 6, 9, 11, 14]
    for place, number in enumerate(numbers):
        assert turns.before(number) == place
        assert turns.before(number + 1) == place + 1


@pytest.mark.parametrize(
    ("count", "said"),
    [(601, "a few were offered twice"), (900, "these were offered 1.5 times over")],
)
def test_how_often_messages_were_offered_is_said_as_it_was(count: int, said: str) -> None:
    (_, note) = prepare._notes(600, count, "")
    assert note == f"The spouts gave 600 messages and ended; {said}, under new ids each time."
