"""What the millisecond part of examples/fraud.py takes: payments a second at most, and latencies of alerts at rates.

    .venv/bin/python -m benchmarks.fraud [--rates 1000 5000 …] [--seconds S] [--workers N] [--durability disk|process]

The most: a file of payments, read as fast as it can be, `kedge run` as it is. Latency is of an open loop: from the time
for which a payment was scheduled to the entry of a sink's `process`, with every wait between, that for the commit of
the card's state too. Of the cards, 60 % fall to thieves, so that there are alerts enough to measure.
"""

import argparse
import asyncio
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # `kedge run` takes this file by its path
    sys.path.insert(0, str(ROOT))

from examples.cards import TRANSACTIONS_MIN, cards, write  # noqa: E402 - where it finds them is above
from examples.fraud import Alert, ParseTransaction, WatchCards  # noqa: E402
from spouts import Line  # noqa: E402
from topology import Bolt, Message, Spout, Task, Topology  # noqa: E402

SHARE = 0.2  # of all cards, for each kind of fraud
WARM_UP = 0.2  # of the payments: their alerts are not measured
LEAD_S = 0.5  # from `open` to the first payment
LIMIT_S = 600  # for one run
PEAK = 47_000  # payments a second: what Visa says it could take


class Scheduled(Spout):
    """Line n of a file, n / rate seconds after the start, whatever became of those before. Writes down the start."""

    def __init__(self, path: str, rate: float) -> None:
        self.path, self.rate = path, rate

    def open(self, task: Task, positions: object) -> None:
        self.lines = Path(self.path).read_text().splitlines()[1:]
        self.next, self.start = 0, time.perf_counter() + LEAD_S
        Path(f"{self.path}.start").write_text(repr(self.start))

    async def poll(self, limit: int) -> Sequence[Message[Line]]:
        if self.next == len(self.lines):
            return []
        wait = self.start + self.next / self.rate - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        due = int((time.perf_counter() - self.start) * self.rate) + 1
        begun, self.next = self.next, min(max(due, self.next + 1), self.next + limit, len(self.lines))
        return [Message(Line(self.lines[number]), number) for number in range(begun, self.next)]


class Probe(Bolt):
    """Writes down when each payment's alert came in."""

    seen: ClassVar[list[tuple[int, float]]] = []

    def __init__(self, path: str) -> None:
        self.path = path

    def process(self, alert: Alert) -> None:
        self.seen.append((alert.number, time.perf_counter()))

    def close(self) -> None:
        Path(f"{self.path}.seen").write_text(json.dumps(self.seen))


def topology(path: str, rate: float) -> Topology:
    """As the example declares it, but for both ends."""
    topology = Topology("fraud")
    lines = topology.spout("lines", Scheduled(path, rate))
    payments = topology.bolt("payments", ParseTransaction(), lines.shuffle())
    alerts = topology.bolt("alerts", WatchCards(), payments.fields("card"), tasks=2)
    topology.bolt("probe", Probe(path), alerts.global_())
    return topology


def at_most(folder: Path, given: argparse.Namespace) -> tuple[float, float]:
    """Payments a second, from the first line to the end of the run; and a second of CPU time, all processes' and their
    start's: what other programs take of the machine is not in it."""
    settings = [f"path={folder / 'transactions.csv'}", f"store={folder / 'fraud.db'}", "spark=false"]
    begun = _cpu_s()
    report = _run(folder / "most", ROOT / "examples" / "fraud.py", settings, given)
    acked = report["spouts"]["lines"]["acked"]
    return acked / report["seconds"], acked / (_cpu_s() - begun)


def latencies(folder: Path, rate: int, given: argparse.Namespace) -> list[float]:
    """Seconds of each alert after the warm-up, sorted. Raises RuntimeError where there are none."""
    made = cards(seed=rate, count=max(TRANSACTIONS_MIN, int(rate * given.seconds)), share=SHARE)
    write(made, folder)
    path = folder / "transactions.csv"
    _run(folder / f"at-{rate}", Path(__file__), [f"path={path}", f"rate={rate}"], given)
    start = float(Path(f"{path}.start").read_text())
    seen = json.loads(Path(f"{path}.seen").read_text())
    first = WARM_UP * len(made.payments)
    found = sorted(at - (start + number / rate) for number, at in seen if number >= first)
    if not found:
        raise RuntimeError("no alerts")
    return found


def _run(state: Path, file: Path, settings: list[str], given: argparse.Namespace) -> Any:
    command = [sys.executable, "-m", "kedge", "run", str(file), "--json", "--state-dir", str(state)]
    command += ["--config", f"durability={given.durability}"]
    command += ["--workers", str(given.workers)] if given.workers > 1 else []
    for setting in settings:
        command += ["--set", setting]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if ran.returncode:
        raise RuntimeError(f"exit status {ran.returncode} of {' '.join(command)}\n{ran.stderr}")
    return json.loads(ran.stdout.splitlines()[-1])


def _cpu_s() -> float:
    """Of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(given: argparse.Namespace) -> Iterator[str]:
    load = os.getloadavg()[0]
    yield f"{os.cpu_count()} cores, load {load:.1f}; workers {given.workers}, durability {given.durability}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(cards(seed=1, count=given.payments), folder)
        most, of_cpu = at_most(folder, given)
        yield f"at most {most:,.0f} payments/s, {most / PEAK:.2f} of {PEAK:,}; {of_cpu:,.0f} a second of CPU time"
    for rate in given.rates:
        with tempfile.TemporaryDirectory() as name:
            found = [1000 * one for one in latencies(Path(name), rate, given)]
        p50, p99 = (found[math.ceil(share * len(found)) - 1] for share in (0.5, 0.99))
        yield f"{rate:>7,}/s  p50 {p50:.2f} ms, p99 {p99:.2f} ms, max {found[-1]:.2f} ms of {len(found):,} alerts"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the millisecond part of examples/fraud.py.")
    parser.add_argument("--rates", type=int, nargs="*", default=[1_000, 5_000, 10_000])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--payments", type=int, default=300_000, help="in the file that is read as fast as can be")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--durability", choices=["disk", "process"], default="disk")
    for line in measured(parser.parse_args()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
