"""`kedge check --guarantees`, as a user calls it."""

import json
from pathlib import Path

from cli_kit import kedge

TOPOLOGY = """
from collections.abc import Iterator

from bolts import Print, SqliteSink
from spouts import Items
from topology import Bolt, Record, State, Topology


class Word(Record):
    text: str


class Count(Bolt):
    recovery = "none"

    def process(self, word: Word, state: State[int]) -> Iterator[Word]:
        state.set(state.get(0) + 1)
        yield word


def topology() -> Topology:
    topology = Topology("words")
    words = topology.spout("words", Items([Word("a")]))
    counted = topology.bolt("count", Count(), words.fields("text"))
    topology.bolt("print", Print(), counted.shuffle())
    topology.bolt("raw", SqliteSink("raw.db"), words.global_())
    return topology
"""


def test_each_sink_is_told_with_its_weakest_bolt_and_nothing_is_run(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text(TOPOLOGY)
    told = kedge("check", "words.py", "--guarantees", cwd=tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.splitlines()[-6:] == [
        "print: no guarantee (records may be lost or repeated); the weakest is 'count'",
        "  'count' has recovery = 'none': after its worker's death its state begins empty: the changes "
        "by finished inputs are lost, and inputs in flight are processed again",
        "  'print' is a Print, which does not deduplicate replays",
        "  the same with each durability, when a worker dies and when power is lost",
        "raw: exactly once in effect",
        "  the same with each durability, when a worker dies and when power is lost",
    ]
    assert not (tmp_path / "raw.db").exists()


def test_machines_get_one_object_and_nothing_else_on_stdout(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text(TOPOLOGY)
    told = kedge("check", "words.py", "--guarantees", "--json", "--config", "guarantee=at-most-once", cwd=tmp_path)
    assert told.returncode == 0
    found = json.loads(told.stdout)
    assert found["topology"] == "words"
    assert [(one["sink"], one["guarantee"]) for one in found["sinks"]] == [
        ("print", "at-most-once"),
        ("raw", "at-most-once"),
    ]


def test_a_topology_with_mistakes_promises_nothing(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text(TOPOLOGY.replace('"none"', '"nothing"'))
    told = kedge("check", "words.py", "--guarantees", "--json", cwd=tmp_path)
    assert told.returncode == 2
    assert told.stdout == ""
    assert "K232" in told.stderr or "Count.recovery is one of checkpoint, replay, none" in told.stderr
