"""Never silent: after five seconds without an ack, a line says why. On virtual time, with the real runtime."""

import asyncio
import logging
import re
from typing import Any

import pytest

from topology import Bolt, Collector, Config, Record, Task, Topology, Tuple
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.telemetry.metrics import Snapshot, SpoutCounts
from topology.runtime.telemetry.stall import SILENT_S, BoltFacts, RunFacts, SpoutFacts, StallWatch, limit
from topology.testing import Pause, ScriptedSpout, run_topology

SOON = re.compile(r"for [56] s")  # it is looked once a second


class Number(Record):
    value: int


class Slow(Bolt):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def process(self, number: Number) -> None:
        await asyncio.sleep(self.seconds)


class Keep(Bolt):
    def execute(self, tup: Tuple[Number], out: Collector[Number]) -> None:
        return None


class Raise(Bolt):
    def process(self, number: Number) -> None:
        raise ValueError(number.value)


def run(
    caplog: pytest.LogCaptureFixture,
    bolt: Any,
    script: list[Number | Pause],
    until_s: float,
    config: Config | None = None,
) -> tuple[list[str], list[str]]:
    """What was logged about stalls, and what the snapshot's limit was each second."""
    caplog.set_level(logging.INFO, "kedge")
    topology = Topology("stalls", config=config or Config(drain_timeout_s=0.1))
    numbers = topology.spout("numbers", ScriptedSpout(script))
    topology.bolt("slow", bolt, numbers.shuffle())
    limits: list[str] = []

    async def look(run: EmbeddedRun) -> None:
        for _ in range(int(until_s)):
            await asyncio.sleep(1.0)
            limits.append(snapshot.limit if (snapshot := run.snapshot()) else "")

    run_topology(topology, until_s=until_s, during=look)
    said = [
        one.getMessage() for one in caplog.records if one.name == "kedge" and "further ones" not in one.getMessage()
    ]
    return [SOON.sub("for about 5 s", line) for line in said], limits


def test_a_bolt_that_takes_long_is_named_with_what_it_has_and_for_how_long(caplog: pytest.LogCaptureFixture) -> None:
    said, limits = run(caplog, Slow(20), [Number(1), Number(2), Pause(60)], 12)
    assert said[0].startswith(
        "2 messages are pending; 'slow' has the oldest, for about 5 s; 'slow' has 1 queued and 1 in hand"
    )
    assert len([line for line in said if "pending" in line]) == 1, "logged once, for it stays the same"
    assert limits[3] == ""
    assert re.search(r"for 1[12] s", limits[-1]), "the snapshot's is up to date"


def test_it_is_said_when_messages_are_acked_again(caplog: pytest.LogCaptureFixture) -> None:
    said, _ = run(caplog, Slow(8), [Number(1), Pause(60)], 11)
    assert said[1].startswith("messages are acked again, after ")


def test_an_idle_source_is_named_once_however_often_it_is_idle(caplog: pytest.LogCaptureFixture) -> None:
    said, limits = run(caplog, Slow(0), [Number(1), Pause(20), Number(2), Pause(60)], 40)
    assert said == ["source idle: no message from 'numbers' for about 5 s"]
    assert re.search("for 1[89] s", " ".join(limits)), "the time goes on, to the last whole second before the message"


def test_a_held_message_is_found_where_it_is_held(caplog: pytest.LogCaptureFixture) -> None:
    said, _ = run(caplog, Keep(), [Number(1), Pause(60)], 7)
    assert said[0] == "1 message is pending; 'slow' has the oldest, for about 5 s; 'slow' has 0 queued and 1 in hand"


def test_messages_that_wait_for_a_replay_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    said, _ = run(caplog, Raise(), [Number(1), Pause(600)], 400, Config(max_replays=12, drain_timeout_s=0.1))
    assert "1 message waits to be replayed after a failure; none is under way" in said


def test_a_component_that_opens_slowly_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class Opens(Slow):
        async def open(self, task: Task) -> None:  # type: ignore[override]
            await asyncio.sleep(7)

    said, _ = run(caplog, Opens(0), [Number(1)], 10)
    assert said[0] == "worker starting: 'slow' has been opening for about 5 s"


SPOUT = SpoutFacts("lines")


def facts(silent_s: float = SILENT_S, *, spout: SpoutFacts = SPOUT, **others: Any) -> RunFacts:
    return RunFacts(silent_s, [spout], others.pop("bolts", []), **others)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (facts(SILENT_S - 0.1, spout=SpoutFacts("lines", pending=5)), None),
        (
            facts(
                spout=SpoutFacts("lines", pending=2000, paused_by="store"),
                bolts=[BoltFacts("store", 1100, 3)],
                oldest_s=7.2,
                oldest_in=["store"],
            ),
            "'lines' is paused by the queue of 'store'; 2,000 messages are pending; 'store' has the oldest, for 7 s; "
            "'store' has 1,100 queued and 3 in hand",
        ),
        (
            facts(spout=SpoutFacts("lines", pending=1), oldest_s=9.0),
            "1 message is pending; no bolt has the oldest any more, for 9 s: it will time out and be replayed",
        ),
        (facts(spout=SpoutFacts("lines", ended=True)), "all sources have ended; waiting for the bolts to finish"),
        (
            facts(bolts=[BoltFacts("store", 5, 0)]),
            "0 messages are pending; 'store' has 5 queued and 0 in hand",
        ),
    ],
)
def test_the_sentence_follows_from_the_facts(given: RunFacts, said: str | None) -> None:
    found = limit(given)
    assert (found.text if found else None) == said


def figures(emitted: int, acked: int) -> Snapshot:
    spout = SpoutCounts(emitted=emitted, acked=acked, pending=emitted - acked)
    return Snapshot("t", 1.0, 1, {"lines": spout}, {})


def test_a_line_about_a_source_that_was_idle_is_not_shown_beside_counters_that_have_grown_since() -> None:
    """It is looked once a second, and counters are shown more often."""
    watch = StallWatch()
    idle = RunFacts(0.0, [SpoutFacts("lines")], [])
    for now in range(7):
        watch.look(float(now), figures(5, 5), lambda: idle)
    assert watch.text_with(figures(5, 5)) == "source idle: no message from 'lines' for 6 s"
    assert watch.text_with(figures(350, 5)) == ""
    assert watch.text_with(figures(350, 350)) == ""


def test_a_line_about_what_is_stuck_stays_while_only_more_comes_in() -> None:
    watch = StallWatch()
    stuck = RunFacts(0.0, [SpoutFacts("lines", pending=3)], [])
    for now in range(7):
        watch.look(float(now), figures(5, 2), lambda: stuck)
    assert watch.text_with(figures(9, 2)).startswith("3 messages are pending")
    assert watch.text_with(figures(9, 3)) == ""
