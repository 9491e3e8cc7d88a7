"""The Apache example: which lines are errors, and its bursts against `apache_oracle`, which shares no code with it."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from apache_oracle import Told, error_in, expected
from example_kit import DATA, rows, run_example
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.apache_errors import Burst, BurstOver, DetectBursts, Error, ParseErrors, Spell, topology
from spouts import Items, Line
from topology import Config, Topology
from topology.testing import Captured, check_replays, run_bolt, run_topology

REAL_LOG = DATA / "loghub/Apache_2k.log"
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
AT = "[Sun Dec 04 05:15:09 2005]"
NEW = "[Sun Dec 04 05:15:09.902022 2005]"
real = pytest.mark.skipif(not REAL_LOG.exists(), reason="the real error log, ../shared/data/loghub, is not here")

ERRORS = [
    (f"{AT} [error] [client 192.0.2.7] Directory index forbidden by rule: /var/www/html/", "192.0.2.7"),
    (f"{AT} [error] [client 2001:db8::1] File does not exist: /var/www/html/x", "2001:db8::1"),
    (f"{AT} [error] mod_jk child workerEnv in error state 6", "server"),
    (f"{AT} [error] jk2_init() Can't find child 1566 in scoreboard", "server"),
    (f"{AT} [error] a module quotes: [client 192.0.2.7] said so", "server"),
    (f"{AT} [error] [client 192.0.2.7] [client 198.51.100.1] quoted", "192.0.2.7"),
    (f"{NEW} [core:error] [pid 35708:tid 4328636416] [client 192.0.2.7:53211] File does not exist: /x", "192.0.2.7"),
    (f"{NEW} [core:error] [pid 7] [client ::1:53211] AH00037: Symbolic link not allowed", "::1"),
    (f"{NEW} [cgi:error] [pid 7] (13)Permission denied: [client 192.0.2.7:4] AH00132: file permissions", "192.0.2.7"),
    (f"{NEW} [proxy:error] [pid 7] (111)Connection refused: AH00957: HTTP: attempt to connect failed", "server"),
    (f"{NEW} [:error] [pid 7] [client 192.0.2.7:4] PHP Notice: of an old module", "192.0.2.7"),
]
OTHERS = [
    "",
    f"{AT}",
    f"{AT} [notice] jk2_init() Found child 6725 in scoreboard slot 10",
    f"{AT} [notice] [error] [client 192.0.2.7] quoted",
    f"{AT} [warn] [client 192.0.2.7] mod_include: unknown",
    f"{AT} [errors] [client 192.0.2.7] no such level",
    f"{NEW} [core:crit] [pid 7] [client 192.0.2.7:4] x",
    f"x {AT} [error] [client 192.0.2.7] not at the line's start",
    "192.0.2.7 - - [04/Dec/2005:05:15:09 +0000] [error] an access log",
]


@pytest.mark.parametrize(("line", "client"), ERRORS)
def test_an_error_line_of_either_format_gives_its_time_and_client(line: str, client: str) -> None:
    at = datetime(2005, 12, 4, 5, 15, 9, tzinfo=UTC)
    assert run_bolt(ParseErrors(), [Line(line)]).outputs == [Error(at, client)]
    assert error_in(line) == (client, at), "the oracle agrees"


@pytest.mark.parametrize("line", OTHERS)
def test_any_other_line_yields_nothing(line: str) -> None:
    done = run_bolt(ParseErrors(), [Line(line)])
    assert (done.outputs, done.failed) == ([], [])
    assert error_in(line) is None, "the oracle agrees"


@pytest.mark.parametrize("when", ["Sun Feb 30 05:15:09 2005", "Sun Dec 04 24:00:00 2005", "Sun Dez 04 05:15:09 2005"])
def test_an_error_at_an_impossible_time_is_rejected_with_the_reason(when: str) -> None:
    line = f"[{when}] [error] x"
    (failed,) = run_bolt(ParseErrors(), [Line(line)]).failed
    assert "an error at no time" in failed.reason
    assert error_in(line) is None, "the oracle agrees"


def test_a_hostile_line_is_read_in_linear_time() -> None:
    began = time.process_time()
    for hostile in ("[client ", "(1)", "[pid ", ":1", "1", "(1)x["):
        for start in ("", "[pid 7] (1) ", "[pid 7] [client 192.0.2.7:"):
            line = Line(f"{NEW} [core:error] {start}{hostile * 200_000}")
            assert [one.client for one in ParseErrors().process(line)] == ["server"]
    assert time.process_time() - began < 5, "seconds for 15 MB; backtracking twice would take hours"


# -- bursts


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def told(seconds: list[float], limit: int = 3, within_s: float = 10.0) -> list[tuple[str, int, int, int]]:
    """What is told of one client with errors at these seconds: what, how many, first and last second."""
    done = run_bolt(DetectBursts(limit, within_s), [Error(at(one), "c") for one in seconds], by=("client",))
    return [
        (type(one).__name__, one.errors, int((one.first_at - START).seconds), int((one.last_at - START).seconds))
        for one in done.outputs
    ]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([], []),
        ([0, 5], []),
        ([0, 5, 11], []),
        ([0, 5, 10], [("Burst", 3, 0, 10)]),
        ([0, 0, 0], [("Burst", 3, 0, 0)]),
        ([0, 9, 18, 27], []),
        ([0, 9, 18, 19], [("Burst", 3, 9, 19)]),
        ([0, 1, 2, 12, 22, 32], [("Burst", 3, 0, 2)]),  # it goes on, if slowly: one alert
        ([0, 1, 2, 12, 13, 14], [("Burst", 3, 0, 2)]),  # and gathers speed again
        ([0, 1, 2, 3, 14], [("Burst", 3, 0, 2), ("BurstOver", 4, 0, 3)]),
        ([0, 9, 18, 19, 30], [("Burst", 3, 9, 19), ("BurstOver", 4, 0, 19)]),  # its beginning was slow
        ([0, 1, 12, 23], []),  # no burst, so none is over
        ([0, 1, 2, 20, 21, 22], [("Burst", 3, 0, 2), ("BurstOver", 3, 0, 2), ("Burst", 3, 20, 22)]),
        # Lines that swapped places count at their own times.
        ([5, 3, 4], [("Burst", 3, 3, 5)]),
        ([10, 5, 0], [("Burst", 3, 0, 10)]),
        ([10, 10, 10, 8, 21], [("Burst", 3, 10, 10), ("BurstOver", 4, 8, 10)]),
        # Set back by more: that is another time, and a burst in it is found.
        ([100, 101, 102, 50, 51, 52], [("Burst", 3, 100, 102), ("BurstOver", 3, 100, 102), ("Burst", 3, 50, 52)]),
    ],
)
def test_a_burst_is_told_at_its_third_error_and_once_more_when_it_is_over(
    seconds: list[float], expected: list[tuple[str, int, int, int]]
) -> None:
    assert told(seconds) == expected


def test_the_state_stays_small_under_a_burst_that_never_ends() -> None:
    errors = [Error(at(n // 10), "c") for n in range(3_000)]
    done = run_bolt(DetectBursts(), errors, by=("client",))
    assert len(done.outputs) == 1
    (spell,) = done.state.values()
    assert isinstance(spell, Spell)
    assert (spell.errors, len(spell.newest)) == (3_000, 5)


# -- against the oracle


def detecting(lines: list[str], sink: Captured[Any], kind: type[Any], config: Config | None = None) -> Topology:
    topology = Topology("detecting", config or Config())
    errors = topology.bolt("errors", ParseErrors(), topology.spout("lines", Items(map(Line, lines))).shuffle())
    bursts = topology.bolt("bursts", DetectBursts(3, 10.0), errors.fields("client"), tasks=2)
    topology.bolt("sink", sink, bursts[kind].global_())
    return topology


def as_told(records: Any) -> list[Told]:
    return sorted(Told(one.client, one.errors, one.first_at, one.last_at) for one in records)


@st.composite
def logs(draw: st.DrawFn) -> list[str]:
    """Lines whose times step back now and then, of two clients and the server, with others among them."""
    lines, latest = ["no error"], 0
    for _ in range(draw(st.integers(0, 40))):
        latest += draw(st.sampled_from([0, 0, 1, 2, 5, 10, 11, 40]))
        when = at(latest - draw(st.sampled_from([0, 0, 0, 1, 2, 10, 11, 100])))
        client = draw(st.sampled_from(["", "", "[client 192.0.2.7] ", "[client 2001:db8::1] "]))
        level = draw(st.sampled_from(["error", "error", "error", "notice"]))
        lines.append(f"[{when:%a %b %d %H:%M:%S %Y}] [{level}] {client}x")
    return lines


@settings(max_examples=40, deadline=None)
@given(logs(), st.sampled_from([Burst, BurstOver]), st.integers(1, 5))
def test_any_log_has_the_bursts_of_the_oracle_however_it_is_batched_and_replayed(
    lines: list[str], kind: type[Burst], max_pending: int
) -> None:
    whole = check_replays(lambda sink: detecting(lines, sink, kind))
    pieces: Captured[Any] = Captured()
    run_topology(detecting(lines, pieces, kind, Config(max_pending=max_pending)))
    other = expected(lines, 3, 10.0)
    assert as_told(whole.values()) == as_told(pieces.records) == (other.bursts if kind is Burst else other.over)


def stored(store: Path, table: str) -> list[Told]:
    times = datetime.fromisoformat
    return sorted(Told(client, errors, times(first), times(last)) for client, errors, first, last in rows(store, table))


@real
@pytest.mark.parametrize("workers", [1, 2])
def test_the_bursts_of_the_real_log_are_just_those_of_the_oracle(tmp_path: Path, workers: int) -> None:
    ran = ("--set", f"path={REAL_LOG}", "--set", "store=bursts.db")
    run_example("apache_errors.py", *ran, cwd=tmp_path, workers=workers)
    other = expected(REAL_LOG.read_text().splitlines())
    assert stored(tmp_path / "bursts.db", "burst") == other.bursts
    assert stored(tmp_path / "bursts.db", "burst_over") == other.over
    assert (other.errors, len(other.bursts), len(other.over)) == (595, 37, 37)
    assert {burst.client for burst in other.bursts} == {"server"}, "no client of that log has a second error"


@real
@pytest.mark.parametrize(("limit", "within_s", "bursts"), [(1, 60.0, 182), (3, 10.0, 95), (10, 300.0, 11)])
def test_other_limits_agree_with_the_oracle_too(limit: int, within_s: float, bursts: int) -> None:
    lines = REAL_LOG.read_text().splitlines()
    errors = run_bolt(ParseErrors(), map(Line, lines)).outputs
    done = run_bolt(DetectBursts(limit, within_s), errors, by=("client",))
    other = expected(lines, limit, within_s)
    assert as_told(one for one in done.outputs if type(one) is Burst) == other.bursts
    assert as_told(done.of(BurstOver)) == other.over
    assert len(other.bursts) == bursts


@real
def test_a_second_run_over_the_same_log_stores_no_burst_twice(tmp_path: Path) -> None:
    for run in range(2):
        report = topology(str(REAL_LOG), str(tmp_path / "bursts.db")).run(state_dir=tmp_path / f"state {run}")
        assert report.exit_status == 0
    assert len(rows(tmp_path / "bursts.db", "burst")) == 37
