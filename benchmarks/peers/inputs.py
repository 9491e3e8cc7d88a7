"""The peers' inputs: files of lines, the same in every run. Must not know which peer reads them."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

from benchmarks.feeder import lines as fed

ROOT: Final = Path(__file__).resolve().parents[2]
REAL_LOG: Final = ROOT.parent / "shared/data/loghub/OpenSSH_2k.log"
ADDRESS: Final = re.compile(r"\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b")
RATE: Final = 1_000  # lines per second of the generated log, by its own times
SEED: Final = 7
WORDS: Final = 5_000  # number of different words
WORDS_A_LINE: Final = 6
LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Workload:
    """One kind of work. `lines`: number of lines, so that the slowest peer takes some seconds; `made` makes them."""

    name: str
    about: str
    lines: int
    made: Callable[[int], Iterator[str]]


def numbered(count: int) -> Iterator[str]:
    """Yield lines of text that all differ, so that a lost or repeated line is seen."""
    for number, line in enumerate(text(count)):
        yield f"{number} {line}"


def text(count: int) -> Iterator[str]:
    """Yield lines of six words each, out of 5,000 words of unequal frequency: the k-th has frequency 1/k."""
    random = Random(SEED)
    known = ["".join(random.choices(LETTERS, k=random.randint(2, 10))) for _ in range(WORDS)]
    shares = [1 / rank for rank in range(1, WORDS + 1)]
    for _ in range(count):
        yield " ".join(random.choices(known, shares, k=WORDS_A_LINE))


def sshd(count: int) -> Iterator[str]:
    """Yield the real log, repeated; each repetition has other addresses, because its times start again.

    Without the real log, yield the log that `benchmarks.feeder` makes.
    """
    if not REAL_LOG.exists():
        yield from (line.decode().removesuffix("\n") for line in fed(count, RATE))
        return
    real = REAL_LOG.read_text("utf-8").splitlines()
    found = dict.fromkeys(address for line in real for address in ADDRESS.findall(line))
    places = {address: place for place, address in enumerate(found)}
    for number in range(count):
        turn, nth = divmod(number, len(real))
        yield ADDRESS.sub(lambda match: _renamed(turn * len(places) + places[match[0]]), real[nth])  # noqa: B023


def _renamed(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def log_source() -> str:
    """Return the source of the alerts' lines, to be shown with the figures."""
    if REAL_LOG.exists():
        return "loghub's OpenSSH_2k.log, over and over, each time with addresses of its own"
    return "made by benchmarks.feeder: every second line a failed login, every tenth raises an alert"


def write(path: Path, made: Iterator[str], count: int) -> None:
    """Write the first `count` lines. Raises OSError."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in islice(made, count))


WORKLOADS: Final = (
    Workload("identity", "each line goes through one step, and into a JSON Lines file", 500_000, numbered),
    Workload("word_count", "lines of six words are split, words counted, counts written at the end", 60_000, text),
    Workload("ssh_alerts", "failed logins are found and counted by address, bursts are written", 400_000, sshd),
)
