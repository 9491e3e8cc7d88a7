"""The feeder of the latency benchmark: writes lines of an sshd log into a pipe, each at its scheduled time.

    python -m benchmarks.feeder FD RATE COUNT [SPIN]

It is a process of its own, so that it has a core and an interpreter's lock to itself, and its CPU time is not the
topology's. It prints "ready", reads the time of the first line (seconds of `time.perf_counter`, one clock for all
processes), writes, closes the pipe, and prints its lateness: {"p99": ms, "max": ms}. It is an open loop: it never waits
for an answer, and writes late lines at once.

It paces itself by `time.sleep`. As a sleep ends up to 0.1 ms too late, it polls the clock for the last SPIN seconds;
asyncio's sleeps are rounded up to a millisecond. That takes a seventh of a core at 1,000 lines per second and all of
one at 10,000; without polling (SPIN 0) far less.

The lines are as sshd writes them, two for each wrong password: pam_unix's, which ParseFailures skips, and the failure.
Sixteen addresses try at a time, and each gives up after five failures. So every second line is a failure and every
tenth line raises an alert, evenly spread. Knows nothing of topologies.
"""

import contextlib
import ctypes
import gc
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta

LANES = 16  # addresses that try at the same time
FAILURES = 5  # of each address; the last one raises its alert
FIRST_AT = datetime(2025, 12, 10, 6, 0, 0)  # noqa: DTZ001 – what syslog writes has no zone
SPIN_S = 0.000_150  # seconds for which it is awake before each line: a sleep may end this much too late
PR_SET_TIMERSLACK = 29


def attempt(pair: int) -> tuple[str, int]:
    """Return the address of the pair-th attempt, and the attempt's ordinal for that address, from 0."""
    step, lane = divmod(pair, LANES)
    turn, nth = divmod(step + lane, FAILURES)  # lanes are one step apart, so their alerts are too
    number = turn * LANES + lane
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", nth


def lines(count: int, rate: int) -> Iterator[bytes]:
    """Yield `count` lines with their line ends, stamped as if written at `rate` lines per second."""
    for number in range(count):
        pair, second_line = divmod(number, 2)
        address, _ = attempt(pair)
        at = FIRST_AT + timedelta(seconds=number // rate)
        start = f"{at:%b} {at.day:2d} {at:%H:%M:%S} gate sshd[{1_000 + pair % 60_000}]: "
        if second_line:
            text = f"Failed password for root from {address} port {32_768 + pair % 28_000} ssh2"
        else:
            failed = "authentication failure; logname= uid=0 euid=0 tty=ssh ruser="
            text = f"pam_unix(sshd:auth): {failed} rhost={address}  user=root"
        yield f"{start}{text}\n".encode()


def due_alerts(count: int) -> dict[str, int]:
    """Return address → number of the line that must raise its alert, for the first `count` lines."""
    due: dict[str, int] = {}
    for pair in range(count // 2):
        address, nth = attempt(pair)
        if nth == FAILURES - 1 and pair >= (FAILURES - 1) * LANES:  # addresses that began before line 0 have fewer
            due[address] = 2 * pair + 1
    return due


def feed(fd: int, written: list[bytes], rate: int, start: float, spin_s: float) -> list[float]:
    """Write each line when it is due; return how many seconds each was late."""
    delays_s = []
    for number, line in enumerate(written):
        due = start + number / rate
        while (ahead := due - time.perf_counter()) > 0:
            if ahead > spin_s:
                time.sleep(ahead - spin_s)
        delays_s.append(-ahead)
        os.write(fd, line)
    return delays_s


def sharpen_sleep() -> None:
    """Let Linux wake this process when its sleep is over, not up to 50 µs later. No effect on other systems."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)


def main() -> None:
    fd, rate, count = map(int, sys.argv[1:4])
    spin_s = float(sys.argv[4]) if len(sys.argv) > 4 else SPIN_S
    written = list(lines(count, rate))
    sharpen_sleep()
    gc.disable()
    print("ready", flush=True)
    delays_s = sorted(feed(fd, written, rate, float(sys.stdin.readline()), spin_s))
    os.close(fd)
    print(json.dumps({"p99": delays_s[len(delays_s) * 99 // 100] * 1000, "max": delays_s[-1] * 1000}), flush=True)


if __name__ == "__main__":
    main()
