"""Makes an sshd log to try things on: realistic lines in the order of their times, with known attacks among them.

    python -m examples.auth_log auth.log --lines 20000 --seed 1

The same seed gives the same bytes. The times cross a new year, and syslog's times name no year. The file's mtime is the
last line's time, so that a reader finds the year. Knows nothing of topologies and uses only the standard library.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from topology.filesystem.safe_files import write_anew

FIRST_AT = datetime(2025, 12, 31, 16, 0, 0, tzinfo=UTC)
SECONDS_A_LINE = 2.7  # on average: 20,000 lines are 15 hours
LINES_AN_ATTACK = 800
LINES_MIN = 1_000
HOST = "gate"
VICTIM = "192.0.2.1"  # attackers use it in names and other programs in quotations; no login from it ever failed
USERS = ("alice", "bob", "carol", "deploy", "git")
GUESSES = ("root", "admin", "oracle", "test", "postgres", "ubuntu", "pi", "0101", "support", "ftpuser")
HOSTILE = (  # names that imitate other parts of a line
    "",
    " ",
    "two words",
    "from",
    "größe",
    "a port 22",
    f"root from {VICTIM} port 22",
    f"root from {VICTIM} port 22 ssh2",
    f"Failed password for root from {VICTIM} port 22 ssh2",
    f"message repeated 9 times: [ Failed password for root from {VICTIM} port 22 ssh2]",
)


@dataclass(frozen=True)
class Attack:
    """An alert that must be raised: the count when it reached five, and its oldest and newest failure."""

    source_ip: str
    failures: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True)
class AuthLog:
    """A generated log: lines without line ends, and the alerts that it must give, sorted by `last_at`."""

    lines: tuple[str, ...]
    attacks: tuple[Attack, ...]
    last_at: datetime


@dataclass(frozen=True)
class Script:
    """The behaviour of one address.

    steps   (seconds from its start, failures in that line)
    alerts  (first line counted, line at which the alert is due)
    """

    steps: tuple[tuple[int, int], ...]
    alerts: tuple[tuple[int, int], ...]


SCRIPTS = (
    Script(tuple((2 * n, 1) for n in range(12)), ((0, 4),)),  # a burst: one alert, not eight
    Script(((0, 1), (15, 1), (30, 1), (45, 1), (60, 1)), ((0, 4),)),  # exactly a minute
    Script(((0, 1), (15, 1), (30, 1), (45, 1), (61, 1)), ()),  # a second too slow
    Script(((0, 1), (7, 5)), ((0, 1),)),  # a folded line goes over the limit
    Script(((0, 7), (1, 1)), ((0, 0),)),  # a folded line alone is over it
    Script((*((n, 1) for n in range(6)), *((130 + n, 1) for n in range(6))), ((0, 4), (6, 10))),  # two waves
    Script(((0, 1), (10, 1), (20, 1), (30, 1), (40, 1), (75, 1), (76, 1)), ((0, 4), (2, 6))),  # four, then five again
    Script(tuple((16 * n, 1) for n in range(12)), ()),  # slow and steady: four a minute
)

Event = tuple[float, str]  # seconds from the log's start, and the line from the program's name on


def auth_log(seed: int = 1, count: int = 20_000) -> AuthLog:
    """Make `count` lines. Raises ValueError for fewer than 1,000."""
    if count < LINES_MIN:
        raise ValueError(f"a log has at least {LINES_MIN} lines, so that an attack has room, not {count}")
    random = Random(seed)
    span = count * SECONDS_A_LINE
    events: list[Event] = []
    attacks: list[Attack] = []
    first_script = random.randrange(len(SCRIPTS))
    for number in range(count // LINES_AN_ATTACK):
        script = SCRIPTS[(first_script + number) % len(SCRIPTS)]
        start = random.randrange(int(span) - 200)
        events += _attack(random, number, script, start)
        attacks += _due(number, script, start)
    number = 0
    while len(events) < count:
        session = random.choices(SESSIONS, WEIGHTS)[0]
        events += session(random, _address(100, 64, number), random.uniform(0, span))
        number += 1
    del events[count:]  # these are of the last session, never of an attack
    events.sort(key=lambda event: event[0])
    at = [FIRST_AT + timedelta(seconds=int(seconds)) for seconds, _ in events]
    lines = (f"{_syslog(at)} {HOST} {text}" for at, (_, text) in zip(at, events, strict=True))
    return AuthLog(tuple(lines), tuple(sorted(attacks, key=lambda attack: (attack.last_at, attack.source_ip))), at[-1])


def write(log: AuthLog, path: Path) -> None:
    """Write the file and set its mtime to the last line's time. Raises OSError."""
    write_anew(path, (f"{line}\n".encode() for line in log.lines))
    os.utime(path, (log.last_at.timestamp(), log.last_at.timestamp()))


def _syslog(at: datetime) -> str:
    return f"{at:%b} {at.day:2d} {at:%H:%M:%S}"


def _address(first: int, second: int, number: int) -> str:
    """Return the number-th address, counted from first.second.0.1; each block of 256 has 254 of them."""
    block, last = divmod(number, 254)
    return f"{first}.{second + block // 256}.{block % 256}.{last + 1}"


def _attacker(number: int) -> str:
    return f"2001:db8:bad::{number + 1:x}" if number % 3 == 2 else _address(198, 18, number)


def _attack(random: Random, number: int, script: Script, start: int) -> Iterator[Event]:
    for seconds, failures in script.steps:
        name = random.choice(HOSTILE if random.random() < 0.4 else GUESSES)
        yield from _failure(random, _attacker(number), start + seconds, name, failures)


def _due(number: int, script: Script, start: int) -> Iterator[Attack]:
    for first, last in script.alerts:
        failures = sum(count for _, count in script.steps[first : last + 1])
        first_at, last_at = (FIRST_AT + timedelta(seconds=start + script.steps[n][0]) for n in (first, last))
        yield Attack(_attacker(number), failures, first_at, last_at)


def _sshd(random: Random) -> str:
    return f"sshd[{random.randrange(1_000, 65_000)}]:"


def _port(random: Random) -> int:
    return random.randrange(32_768, 61_000)


def _failure(random: Random, address: str, at: float, name: str, count: int = 1) -> Iterator[Event]:
    sshd, known = _sshd(random), name in (*USERS, "root")
    if not known:
        yield at, f"{sshd} Invalid user {name} from {address}"
    failed = "authentication failure; logname= uid=0 euid=0 tty=ssh ruser="
    yield at, f"{sshd} pam_unix(sshd:auth): {failed} rhost={address}{f'  user={name}' * known}"
    failed = f"Failed password for {'' if known else 'invalid user '}{name} from {address} port {_port(random)} ssh2"
    yield at, f"{sshd} {failed}" if count == 1 else f"{sshd} message repeated {count} times: [ {failed}]"


def _login(random: Random, address: str, at: float) -> Iterator[Event]:
    sshd, user, port = _sshd(random), random.choice(USERS), _port(random)
    method = random.choice(("password", "publickey"))
    yield at, f"{sshd} Accepted {method} for {user} from {address} port {port} ssh2"
    yield at, f"{sshd} pam_unix(sshd:session): session opened for user {user} by (uid=0)"
    yield at + random.uniform(5, 900), f"{sshd} pam_unix(sshd:session): session closed for user {user}"


def _forgetful(random: Random, address: str, at: float) -> Iterator[Event]:
    """One to four wrong passwords, then the right one: never an alert."""
    user = random.choice(USERS)
    for n in range(random.randint(1, 4)):
        yield from _failure(random, address, at + 3 * n, user)
    yield at + 14, f"{_sshd(random)} Accepted password for {user} from {address} port {_port(random)} ssh2"


def _scanner(random: Random, address: str, at: float) -> Iterator[Event]:
    yield from _failure(random, address, at, random.choice(GUESSES))
    yield at + 1, f"{_sshd(random)} Received disconnect from {address}: 11: Bye Bye [preauth]"


def _knock(random: Random, address: str, at: float) -> Iterator[Event]:
    sshd = _sshd(random)
    yield at, f"{sshd} Did not receive identification string from {address}"
    yield at + 1, f"{sshd} Connection closed by {address} [preauth]"


def _quotation(random: Random, address: str, at: float) -> Iterator[Event]:
    """Lines that quote failures: of other programs, and of sshd about a name that the attacker chose."""
    quoted = f"Failed password for root from {VICTIM} port {_port(random)} ssh2"
    for n in range(3):
        yield at + n, f"watcher[811]: sshd[4242]: {quoted}"
        yield at + n, f"sudo:    alice : TTY=pts/0 ; PWD=/root ; USER=root ; COMMAND=/usr/bin/grep {quoted}"
        yield at + n, f"{_sshd(random)} Invalid user {quoted} from {address}"


SESSIONS: tuple[Callable[[Random, str, float], Iterator[Event]], ...] = (
    _login,
    _forgetful,
    _scanner,
    _knock,
    _quotation,
)
WEIGHTS = (40, 15, 25, 18, 2)


def main() -> None:
    """The command. Prints one sentence and exits with status 2 for invalid options or an unwritable file."""
    parser = argparse.ArgumentParser(prog="python -m examples.auth_log", description="Makes an sshd log to try out.")
    parser.add_argument("out", type=Path, help="the file to write")
    parser.add_argument("--lines", type=int, default=20_000, help=f"at least {LINES_MIN} (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same bytes (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        log = auth_log(arguments.seed, arguments.lines)
        write(log, arguments.out)
    except ValueError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"{arguments.out} can't be written: {error.strerror}")
    print(f"{arguments.out}: {len(log.lines)} lines, {len(log.attacks)} alerts due")


if __name__ == "__main__":
    main()
