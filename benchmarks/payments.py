"""The benchmark of examples/fraud.py: its part that takes milliseconds, fed from a file of payments.

Latency is of an open loop: from the scheduled time of a payment to the entry of a sink's `process`. It includes every
wait between, also for the commit of the card's state. Thieves use 60 % of the cards, so that there are enough alerts to
measure. `kedge run` takes this file as a topology. Must not know which rates are asked, nor a bar.
"""

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

ROOT: Final = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # `kedge run` takes this file by its path
    sys.path.insert(0, str(ROOT))

from benchmarks.alerts import percentile_ms  # noqa: E402 - where it finds them is above
from benchmarks.where import Where  # noqa: E402
from examples.cards import TRANSACTIONS_MIN, cards, write  # noqa: E402
from examples.fraud import Alert, ParseTransaction, WatchCards  # noqa: E402
from examples.fraud import topology as fraud  # noqa: E402
from spouts import Line  # noqa: E402
from topology import Bolt, Config, Message, Spout, Task, Topology  # noqa: E402
from topology.runtime.asyncio_tools import settle_heap  # noqa: E402
from topology.runtime.embedded.run import EmbeddedRun  # noqa: E402

SHARE: Final = 0.2  # share of all cards, for each kind of fraud
WARM_UP: Final = 0.2  # share of the payments whose alerts are not measured
LEAD_S: Final = 0.5  # seconds from `open` to the first payment
LIMIT_S: Final = 110.0  # seconds for one run
PAYMENTS_A_SECOND: Final = 20_000  # payments per second of a measurement, in the file that is read as fast as possible
STATE: Final = (
    "topology/storage/",
    "topology/runtime/commits/",
    *(f"topology/runtime/state/{name}.py" for name in ("committed", "value", "dedup", "journaled_outputs")),
)
# state survives every process, but a loss of power can take up to a fifth of a second of it
DURABILITY: Final = "process"


class Scheduled(Spout):
    """Line n of a file, n / rate seconds after the start, whatever became of earlier lines. Writes down the start."""

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
        first, self.next = self.next, min(max(due, self.next + 1), self.next + limit, len(self.lines))
        return [Message(Line(self.lines[number]), number) for number in range(first, self.next)]


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
    """Declare the topology as the example does, except both ends."""
    topology = Topology("fraud")
    lines = topology.spout("lines", Scheduled(path, rate))
    payments = topology.bolt("payments", ParseTransaction(), lines.shuffle())
    alerts = topology.bolt("alerts", WatchCards(), payments.fields("card"), tasks=2)
    topology.bolt("probe", Probe(path), alerts.global_())
    return topology


def at_most(seconds: float, workers: int = 1) -> dict[str, float]:
    """Return figures of an unchanged `kedge run` on a file that it reads as fast as possible.

    `value`: payments per second, from the first line to the end; `of_cpu`: payments per second of CPU time of all its
    processes, their start included, so that other programs have no effect; `cores` that it took of the machine.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(cards(seed=1, count=_count(PAYMENTS_A_SECOND * seconds)), folder)
        settings = [f"path={folder / 'transactions.csv'}", f"store={folder / 'fraud.db'}", "spark=false"]
        started_at = _cpu_s()
        report = _run(folder / "state", ROOT / "examples" / "fraud.py", settings, workers)
    acked, took = report["spouts"]["lines"]["acked"], _cpu_s() - started_at
    return {"value": acked / report["seconds"], "of_cpu": acked / took, "cores": took / report["seconds"]}


def latency(rate: int, seconds: float, workers: int = 1) -> dict[str, float]:
    """Return milliseconds `value` and `p50`, `p99`, `max`; `alerts` measured. Raises RuntimeError if there are none."""
    made = cards(seed=rate, count=_count(rate * seconds), share=SHARE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(made, folder)
        path = folder / "transactions.csv"
        _run(folder / "state", Path(__file__), [f"path={path}", f"rate={rate}"], workers)
        start = float(Path(f"{path}.start").read_text())
        seen = json.loads(Path(f"{path}.seen").read_text())
    first = WARM_UP * len(made.payments)
    took = [at - (start + number / rate) for number, at in seen if number >= first]
    if not took:
        raise RuntimeError("no alerts")
    p50, p99 = (percentile_ms(took, percent) for percent in (50, 99))
    return {"value": p50, "p50": p50, "p99": p99, "max": 1_000 * max(took), "alerts": len(took)}


def profile(seconds: float) -> dict[str, float]:
    """Return `value`: microseconds of CPU time per payment, in one process.

    By samples also those of `rules` (the example's own), `state` (codecs, commits, deduplication, the store's thread)
    and `rest` (reading, trees, routing, the loop).
    """
    count = _count(PAYMENTS_A_SECOND * seconds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(cards(seed=1, count=count), folder)
        made = fraud(str(folder / "transactions.csv"), store=str(folder / "fraud.db"), spark=False)
        made.config = Config(durability=DURABILITY)
        settle_heap()
        with Where({"rules": ("examples/",), "state": STATE}, rest="rest", others="state") as where:
            asyncio.run(_embedded(made, folder / "state"))
    return {"value": where.cpu_s * 1e6 / count, **{part: each * 1e6 / count for part, each in where.seconds.items()}}


def _count(payments: float) -> int:
    """Return the number of payments, at least the generator's minimum."""
    return max(TRANSACTIONS_MIN, int(payments))


async def _embedded(made: Topology, state: Path) -> None:
    report = await EmbeddedRun(made, state_dir=state).finish()
    if report.exit_status:
        raise RuntimeError(f"the run has {report.ended}: {report.error}")


def _run(state: Path, file: Path, settings: list[str], workers: int) -> Any:
    command = [sys.executable, "-m", "kedge", "run", str(file), "--json", "--state-dir", str(state)]
    command += ["--config", f"durability={DURABILITY}", *(["--workers", str(workers)] if workers > 1 else [])]
    for setting in settings:
        command += ["--set", setting]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if ran.returncode:
        raise RuntimeError(f"exit status {ran.returncode} of {' '.join(command)}\n{ran.stderr}")
    return json.loads(ran.stdout.splitlines()[-1])


def _cpu_s() -> float:
    """Return the CPU time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
