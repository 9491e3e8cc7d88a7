"""The rule of the SSH example: which lines are failures, at what time, and when an address is alerted.

Calls the bolts' `process` alone, against tables and against `ssh_oracle`, which shares no code with the example.
"""

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ssh_oracle import expected, failure_in

from examples.auth_log import auth_log
from examples.ssh_alerts import BruteForce, DetectBruteForce, Failure, ParseFailures
from spouts import Line
from topology import Reject, Task
from topology.storage.directory.state_dir import MemoryNotes

REFERENCE = datetime(2026, 3, 1, 12, tzinfo=UTC)
START = datetime(2026, 2, 1, 12, tzinfo=UTC)


class OneValue:
    """The state of one key, as `topology.State` promises it. Its timers are not fired: what is in order needs none."""

    def __init__(self) -> None:
        self.value: Any = None
        self.timers: dict[str, datetime | None] = {}

    def get(self, default: Any = None) -> Any:
        return default if self.value is None else self.value

    def set(self, value: Any) -> None:
        self.value = value

    def clear(self) -> None:
        self.value = None

    def timer(self, at: datetime | None, name: str = "") -> None:
        self.timers = {**self.timers, name: at}


class StandingClock:
    def monotonic(self) -> float:
        return 0.0

    def utc(self) -> datetime:
        return REFERENCE


def detector(limit: int = 5, within_s: float = 60.0) -> DetectBruteForce:
    """The bolt, open, as the runtime has it."""
    bolt = DetectBruteForce(limit, within_s)
    bolt.open(Task("ssh-alerts", "alerts", 0, 1, StandingClock(), Random(0), MemoryNotes()))
    return bolt


def failures_in(line: str, reference: datetime = REFERENCE) -> list[Failure]:
    return list(ParseFailures("unused.log", reference.isoformat()).process(Line(line)))


def alerts_of(failures: Iterable[Failure], states: dict[str, OneValue] | None = None) -> list[BruteForce]:
    states = {} if states is None else states
    alerts: list[BruteForce] = []
    for failure in failures:
        bolt = detector()  # a new one each time: all that it knows is in the state (B4)
        alerts += bolt.process(failure, states.setdefault(failure.source_ip, OneValue()))
    return alerts


def alerts_and_rejected(
    lines: Iterable[str], reference: datetime = REFERENCE
) -> tuple[list[tuple[Any, ...]], list[str]]:
    """The alerts, as plain tuples, and the rejected lines."""
    failures: list[Failure] = []
    rejected: list[str] = []
    for line in lines:
        try:
            failures += failures_in(line, reference)
        except Reject:
            rejected.append(line)
    return [(a.source_ip, a.failures, a.first_at, a.last_at) for a in alerts_of(failures)], rejected


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def counts(steps: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Alerts as (failures, first second, last second), of one address that fails as (second, count) says."""
    alerts = alerts_of(Failure(at(second), "198.51.100.1", "root", count) for second, count in steps)
    zero = START.timestamp()
    return [(a.failures, int(a.first_at.timestamp() - zero), int(a.last_at.timestamp() - zero)) for a in alerts]


HEAD = "Dec 10 06:55:46 LabSZ sshd[24200]: "

FAILURES = [
    ("Failed password for root from 192.0.2.7 port 38926 ssh2", "192.0.2.7", "root", 1),
    ("Failed password for invalid user webmaster from 192.0.2.7 port 38926 ssh2", "192.0.2.7", "webmaster", 1),
    ("Failed password for invalid user  from 192.0.2.7 port 22 ssh2", "192.0.2.7", "", 1),
    ("Failed password for  from 192.0.2.7 port 22 ssh2", "192.0.2.7", "", 1),
    ("Failed password for invalid user  0101 from 192.0.2.7 port 22 ssh2", "192.0.2.7", " 0101", 1),
    ("Failed password for invalid user two words from 192.0.2.7 port 22 ssh2", "192.0.2.7", "two words", 1),
    ("Failed password for invalid user from from 192.0.2.7 port 22 ssh2", "192.0.2.7", "from", 1),
    ("Failed password for root from 2001:db8::1 port 22 ssh2", "2001:db8::1", "root", 1),
    ("Failed password for root from fe80::1%eth0 port 22 ssh2", "fe80::1%eth0", "root", 1),
    ("Failed password for root from ::ffff:192.0.2.7 port 22 ssh2", "::ffff:192.0.2.7", "root", 1),
    ("Failed password for root from 192.0.2.7 port 22", "192.0.2.7", "root", 1),
    (
        "Failed password for invalid user x from 1.2.3.4 port 5 from 192.0.2.7 port 22 ssh2",
        "192.0.2.7",
        "x from 1.2.3.4 port 5",
        1,
    ),
    (
        "Failed password for invalid user x from 1.2.3.4 port 5 ssh2 from 192.0.2.7 port 22 ssh2",
        "192.0.2.7",
        "x from 1.2.3.4 port 5 ssh2",
        1,
    ),
    ("message repeated 5 times: [ Failed password for root from 192.0.2.7 port 22 ssh2]", "192.0.2.7", "root", 5),
    (
        "message repeated 12 times: [ Failed password for invalid user a b from 2001:db8::1 port 22 ssh2]",
        "2001:db8::1",
        "a b",
        12,
    ),
    (
        "Failed password for invalid user message repeated 9 times: [ Failed password for x from 1.2.3.4 port 5 ssh2]"
        " from 192.0.2.7 port 22 ssh2",
        "192.0.2.7",
        "message repeated 9 times: [ Failed password for x from 1.2.3.4 port 5 ssh2]",
        1,
    ),
]

OTHERS = [
    "",
    "no log line at all",
    "Dec 10 06:55:46 LabSZ sshd[24200]:",
    HEAD + "Invalid user webmaster from 192.0.2.7",
    HEAD + "Invalid user Failed password for root from 1.2.3.4 port 5 ssh2 from 192.0.2.7 port 22",
    HEAD + "Failed none for invalid user admin from 192.0.2.7 port 52631 ssh2",
    HEAD + "Accepted password for fztu from 192.0.2.7 port 49116 ssh2",
    HEAD + "message repeated 2 times: [ Accepted password for fztu from 192.0.2.7 port 49116 ssh2]",
    HEAD + "message repeated 0 times: [ Failed password for root from 192.0.2.7 port 22 ssh2]",
    HEAD + "message repeated many times: [ Failed password for root from 192.0.2.7 port 22 ssh2]",
    HEAD + "pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 rhost=192.0.2.7",
    HEAD + "Failed password for root from somewhere.example port 22 ssh2",
    HEAD + "Failed password for invalid user x from 1.2.3.4 port 5 from UNKNOWN port 65535 ssh2",
    HEAD + "Failed password for root from 300.1.2.3 port 22 ssh2",
    HEAD + "Failed password for root from 192.0.2.7 port ssh2",
    HEAD + "Failed password for root",
    "Dec 10 06:55:46 LabSZ watcher[1]: sshd[2]: Failed password for root from 192.0.2.7 port 22 ssh2",
    "Dec 10 06:55:46 LabSZ sudo: COMMAND=/bin/grep sshd[2]: Failed password for root from 192.0.2.7 port 22 ssh2",
    "Dec 10 06:55:46 LabSZ notsshd[2]: Failed password for root from 192.0.2.7 port 22 ssh2",
    "sshd[2]: Failed password for root from 192.0.2.7 port 22 ssh2",
]


@pytest.mark.parametrize(("message", "address", "user", "count"), FAILURES)
def test_a_failure_line_gives_its_address_name_and_count(message: str, address: str, user: str, count: int) -> None:
    [failure] = failures_in(HEAD + message)
    assert failure == Failure(datetime(2025, 12, 10, 6, 55, 46, tzinfo=UTC), address, user, count)
    assert failure_in(HEAD + message) == (address, count), "the oracle agrees"


@pytest.mark.parametrize("line", OTHERS)
def test_any_other_line_yields_nothing(line: str) -> None:
    assert failures_in(line) == []
    assert failure_in(line) is None, "the oracle agrees"


@pytest.mark.parametrize(
    "text",
    ["Feb 30 12:00:00", "Dec 10 24:00:00", "Dec 10 06:60:00", "Dec  0 06:55:46", "Dez 10 06:55:46", "Dec 1x 06:55:46"],
)
def test_a_failure_at_an_impossible_time_is_rejected_with_the_reason(text: str) -> None:
    line = f"{text} LabSZ sshd[1]: Failed password for root from 192.0.2.7 port 22 ssh2"
    with pytest.raises(Reject, match="not a time"):
        failures_in(line)
    assert expected([line], REFERENCE).rejected == [line], "the oracle agrees"


def test_an_impossible_time_matters_only_on_a_failure_line() -> None:
    assert failures_in("Feb 30 12:00:00 LabSZ sshd[1]: Connection closed by 192.0.2.7 [preauth]") == []


@pytest.mark.parametrize(
    ("steps", "alerts"),
    [
        ([(0, 1), (1, 1), (2, 1), (3, 1)], []),
        ([(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)], [(5, 0, 4)]),
        ([(second, 1) for second in range(50)], [(5, 0, 4)]),
        ([(0, 1), (15, 1), (30, 1), (45, 1), (60, 1)], [(5, 0, 60)]),
        ([(0, 1), (15, 1), (30, 1), (45, 1), (61, 1)], []),
        ([(7, 1)] * 5, [(5, 7, 7)]),
        ([(0, 5)], [(5, 0, 0)]),
        ([(0, 9), (1, 1)], [(9, 0, 0)]),
        ([(0, 1), (30, 5)], [(6, 0, 30)]),
        ([(0, 4), (61, 4), (122, 4)], []),
        # Below the limit at the failure before means at that failure's own time, not at this one's.
        ([(0, 5), (100, 5)], [(5, 0, 0)]),
        ([(0, 5), (100, 1), (101, 4)], [(5, 0, 0), (5, 100, 101)]),
        ([(0, 1), (10, 1), (20, 1), (30, 1), (40, 1), (75, 1), (76, 1)], [(5, 0, 40), (5, 20, 76)]),
        # Lines in the file's order, their times not: the last minute ends with the newest.
        ([(0, 1), (2, 1), (3, 1), (4, 1), (1, 1)], [(5, 0, 4)]),
        ([(0, 1), (1, 1), (100, 1), (101, 1), (50, 1)], []),
        ([(0, 1), (61, 1), (1, 1), (2, 1), (3, 1), (4, 1)], [(5, 1, 61)]),
        # Set back by more than a minute: counted apart, and an attack is found all the same.
        ([(100, 4), (39, 1), (40, 1)], [(5, 40, 100)]),
        ([(100, 4), (38, 1), (39, 1), (101, 1)], [(5, 100, 101)]),
        ([(7_200, 1), (7_201, 1), *((3_600 + second, 1) for second in range(5))], [(5, 3_600, 3_604)]),
    ],
)
def test_an_alert_is_raised_when_the_count_of_a_minute_comes_to_five(
    steps: list[tuple[int, int]], alerts: list[tuple[int, int, int]]
) -> None:
    assert counts(steps) == alerts


def test_addresses_are_counted_apart() -> None:
    failures = [Failure(at(n), f"198.51.100.{n % 2}", "root", 1) for n in range(9)]
    assert alerts_of(failures) == [BruteForce("198.51.100.0", 5, at(0), at(8))]


def test_limit_and_time_can_be_chosen() -> None:
    bolt, state = detector(limit=2, within_s=5.0), OneValue()
    failures = [Failure(at(second), "198.51.100.1", "root", 1) for second in (0, 6, 11)]
    alerts = [alert for failure in failures for alert in bolt.process(failure, state)]
    assert alerts == [BruteForce("198.51.100.1", 2, at(6), at(11))]


def test_the_state_stays_small_under_an_attack_that_never_ends() -> None:
    states: dict[str, OneValue] = {}
    failures = (Failure(at(n // 3), "198.51.100.1", "root", 1) for n in range(3_000))
    assert len(alerts_of(failures, states)) == 1
    assert len(states["198.51.100.1"].value.window.events) <= 5, "the newest that come to the limit"


def test_a_hostile_line_is_read_in_linear_time() -> None:
    began = time.process_time()
    for hostile in (" from a port ", " from ", "invalid user ", " port 1 from 1.2.3.4 "):
        assert failures_in(HEAD + "Failed password for " + hostile * 200_000) == []
    assert time.process_time() - began < 5, "seconds for 12 MB; backtracking twice would take hours"


FRAGMENTS = st.sampled_from(
    [
        " from ",
        " port ",
        "from",
        "port",
        " ",
        "1.2.3.4",
        "192.0.2.7",
        "2001:db8::1",
        "fe80::1%eth0",
        "UNKNOWN",
        "22",
        "x",
        "invalid user ",
        "Failed password for ",
        "message repeated 3 times: [ ",
        "message repeated 03 times: [ ",
        "sshd[7]: ",
        "Dec 10 06:55:46 h ",
        " ssh2",
        "]",
        "\r",
        "ß",
    ]
)
JUMBLE = st.lists(FRAGMENTS, max_size=12).map("".join)
NAMES = st.one_of(st.sampled_from(["root", "admin", ""]), JUMBLE, st.text(max_size=5))
ADDRESSES = st.sampled_from(["192.0.2.7", "198.51.100.1", "2001:db8::1"])


@given(JUMBLE)
@example("Failed password for x from 1.2.3.4 port  port 22 from UNKNOWN port port 22")
def test_example_and_oracle_agree_on_which_jumbled_lines_are_failures(jumble: str) -> None:
    for line in (jumble, HEAD + jumble, HEAD + "Failed password for " + jumble):
        mine = [(failure.source_ip, failure.count) for failure in failures_in(line)]
        other = failure_in(line)
        assert mine == ([other] if other else [])


@given(NAMES.filter(lambda name: "\n" not in name), ADDRESSES, st.booleans())
def test_no_name_can_change_the_address(name: str, address: str, invalid: bool) -> None:
    line = f"{HEAD}Failed password for {'invalid user ' * invalid}{name} from {address} port 4711 ssh2"
    [failure] = failures_in(line)
    assert (failure.source_ip, failure.count) == (address, 1)


@st.composite
def logs(draw: st.DrawFn) -> list[str]:
    """Lines whose times step back now and then, of three addresses and hostile names."""
    lines: list[str] = []
    latest = 0
    for _ in range(draw(st.integers(0, 60))):
        latest += draw(st.sampled_from([0, 0, 1, 2, 5, 15, 30, 61, 120]))
        back = draw(st.sampled_from([0, 0, 0, 1, 20, 60, 61, 3_600]))
        when = at(latest - back)
        name, address = draw(NAMES.filter(lambda name: "\n" not in name)), draw(ADDRESSES)
        message = f"Failed password for invalid user {name} from {address} port 4711 ssh2"
        if repeated := draw(st.sampled_from([0, 0, 0, 2, 5])):
            message = f"message repeated {repeated} times: [ {message}]"
        lines.append(f"{when:%b} {when.day:2} {when:%H:%M:%S} h sshd[{draw(st.integers(1, 99))}]: {message}")
        if draw(st.booleans()):
            lines.append(HEAD + draw(JUMBLE))
    return lines


@pytest.mark.slow
@given(logs())
def test_example_and_oracle_raise_the_same_alerts_on_any_log(lines: list[str]) -> None:
    other = expected(lines, REFERENCE)
    assert alerts_and_rejected(lines) == ([tuple(alert) for alert in other.alerts], other.rejected)


@pytest.mark.parametrize("seed", range(5))
def test_example_and_oracle_raise_the_same_alerts_on_a_made_log(seed: int) -> None:
    log = auth_log(seed, 5_000)
    other = expected(list(log.lines), log.last_at)
    assert alerts_and_rejected(log.lines, log.last_at) == ([tuple(alert) for alert in other.alerts], [])
    assert other.alerts, f"seed {seed} has attacks"
