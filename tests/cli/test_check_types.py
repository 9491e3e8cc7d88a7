"""`kedge run --check-types`: a field of a wrong type fails at the line that makes the record, whatever runs it."""

from pathlib import Path

import pytest
from cli_kit import kedge

WRONG = """
from collections.abc import Iterator
from bolts import Print
from spouts import Items
from topology import Bolt, Record, Topology


class Sentence(Record):
    text: str


class Length(Record):
    of: tuple[str, ...]
    count: int


class Measure(Bolt):
    def process(self, sentence: Sentence) -> Iterator[Length]:
        if sentence.text == "text":
            yield Length((sentence.text,), sentence.text)  # the wrong line
        elif sentence.text == "list":
            yield Length([sentence.text], 4)  # the wrong list
        else:
            yield Length((sentence.text,), len(sentence.text))


def topology() -> Topology:
    topology = Topology("lengths")
    sentences = topology.spout("sentences", Items([Sentence("good"), Sentence("text"), Sentence("list")]))
    lengths = topology.bolt("measure", Measure(), sentences.shuffle())
    topology.bolt("print", Print(), lengths.shuffle())
    return topology
"""


def ran(folder: Path, *options: str) -> tuple[int, str, list[str]]:
    """The exit status, stderr and the printed records of a run of WRONG; none of its messages is replayed."""
    (folder / "lengths.py").write_text(WRONG)
    done = kedge("run", "lengths.py", "--config", "max_replays=0", *options, cwd=folder)
    return done.returncode, done.stderr, [line for line in done.stdout.splitlines() if line.startswith("Length(")]


def test_without_it_a_field_of_a_wrong_type_passes_within_one_process_B13(tmp_path: Path) -> None:
    status, _, printed = ran(tmp_path)
    assert status == 0
    assert len(printed) == 3


@pytest.mark.parametrize("processes", [(), ("--workers", "2")], ids=["one process", "two workers"])
def test_a_field_of_a_wrong_type_fails_its_input_at_the_line_that_makes_the_record_B13(
    processes: tuple[str, ...], tmp_path: Path
) -> None:
    status, said, printed = ran(tmp_path, "--check-types", *processes)
    assert status == 1
    assert len(printed) == 1
    assert "TypeError: Length.count holds 'text', a str; its annotation is int" in said
    assert "yield Length((sentence.text,), sentence.text)  # the wrong line" in said
    assert "Length.of holds ['list'], a list; by its annotation it is ('list',)" in said
    assert "yield Length([sentence.text], 4)  # the wrong list" in said


def test_the_setting_alone_checks_what_is_emitted_and_names_the_bolt_B13(tmp_path: Path) -> None:
    status, said, printed = ran(tmp_path, "--config", "check_types=true")
    assert status == 1
    assert len(printed) == 1
    assert "'measure' emitted Length(of=('text',), count='text'): Length.count holds 'text', a str" in said
