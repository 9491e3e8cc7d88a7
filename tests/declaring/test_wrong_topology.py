"""The whole error of one topology with many mistakes, as its user reads it."""

from collections.abc import Iterator
from typing import Any

import pytest
from declaring_kit import Failure, Line, Lines, Malformed, Parse, Sink

from topology import Bolt, DeclarationError, State, Topology


class Detect(Bolt):
    def process(self, failure: Failure, state: State[tuple[int, ...]]) -> Iterator[Malformed]:
        yield Malformed(failure.user)


class Silent(Bolt):
    """Forgot its `process`."""


def wrong() -> Any:
    topology: Any = Topology("ssh alerts")  # type checkers would refuse most of it
    lines = topology.spout("lines", Lines())
    topology.spout("unread", Lines(), tasks=0)
    failures = topology.bolt("parse", Parse(), lines.shuffle(), concurrency=8)
    alerts = topology.bolt("detect", Detect(), failures[Failure].shuffle(), every="10 s")
    topology.bolt(
        "detect",
        Detect(),
        failures[Failure].fields("sorce_ip"),
        failures[Line].fields("text"),
    )
    topology.bolt("silent", Silent())
    topology.bolt("store", Sink, alerts)
    return topology


EXPECTED = """\
topology 'ssh alerts' has 14 mistakes:
  wrong.py:1: the topology's name 'ssh alerts' is not possible; a name is 1 to 64 of A-Z a-z 0-9 _ and -, like 'ssh-alerts' (K201)
  wrong.py:3: 'unread': tasks is a whole number from 1 to 1,024, not 0 (K206)
  wrong.py:3: 'unread': no bolt reads this spout; pass one of its streams to a bolt, for example unread.shuffle() (K205)
  wrong.py:4: 'parse': concurrency=8 lets inputs wait side by side, and the `process` of Parse never waits; write async def process, or leave concurrency out (K207)
  wrong.py:5: 'detect': every='10 s' calls tick(self, now), which Detect does not define (K207)
  wrong.py:5: 'detect': every: a duration is a number and ms, s, m or h, like "10s", not '10 s' (K207)
  wrong.py:5: 'detect': parse[Failure].shuffle(): Detect keeps state, but a replay may reach a task without that state; use fields(…), whose values become the state's key, or global_() (K225)
  wrong.py:6: 'detect': a component of this name is declared already, in line 5 (K204)
  wrong.py:9: 'detect': parse[Failure].fields('sorce_ip'): Failure has no field 'sorce_ip'; did you mean 'source_ip'? (K224)
  wrong.py:10: 'detect': parse[Line].fields('text'): it emits no Line; it emits Failure, Malformed (K223)
  wrong.py:12: 'silent': Silent defines neither `process` nor `execute`; a bolt has one of them (K215)
  wrong.py:12: 'silent': it has no input; give it a stream with a grouping: topology.bolt("name", bolt, x.shuffle()) (K212)
  wrong.py:13: 'store': Sink: give an instance, Sink() (K214)
  wrong.py:13: 'store': a stream is not an input yet; choose a grouping: detect.shuffle() (K213)
"""  # noqa: E501 - as it is printed


def test_all_mistakes_come_in_one_error_that_reads_well() -> None:
    first = wrong.__code__.co_firstlineno
    with pytest.raises(DeclarationError) as raised:
        wrong().validate()
    text = str(raised.value)
    for line in range(first, first + 30):
        text = text.replace(f"{__file__}:{line}: ", f"wrong.py:{line - first}: ")
        text = text.replace(f"in line {line} (", f"in line {line - first} (")
    assert text + "\n" == EXPECTED
