"""A worker's log on a simulated disk: a disk that keeps any sectors of what was not synced, and the list that a log is
compared with."""

import errno
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.simulation.power_cuts import CutDisk, PowerCut
from topology.storage.log.log import LogSizes, WorkerLog
from topology.storage.log.opening import open_log
from topology.storage.store import StoreFull
from topology.testing.simulator.disk import ROOT, SECTOR, FileNode, _apply
from topology.testing.simulator.files import SimulatedFiles

PATH = ROOT / "worker-0.log"
SIZES = LogSizes(step=4_096, keep=6_000)


class SectorDisk(CutDisk):
    """Of what was not synced, a loss of power leaves any sectors of any writes, also of the one that it cuts short.

    `short`: bytes that the next write keeps before the disk is full, and it fails.
    """

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.short: int | None = None

    def write(self, node: FileNode, offset: int, data: bytes) -> None:
        try:
            if self.short is not None:
                data, self.short, full = data[: self.short], None, len(data) > self.short
                super().write(node, offset, data)
                if full:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            else:
                super().write(node, offset, data)
        except PowerCut:
            node.unsynced.append((offset, data))
            raise

    def _lose(self, node: FileNode) -> None:
        chance = self._random.choice([0.0, 0.3, 0.7, 0.95, 1.0])
        for offset, data in node.unsynced:
            if not data:
                if self._random.random() < chance:
                    _apply(node.durable, offset, data)
                continue
            while data:
                length = SECTOR - offset % SECTOR
                if self._random.random() < chance:
                    _apply(node.durable, offset, data[:length])
                offset, data = offset + length, data[length:]
        node.unsynced.clear()
        node.content = bytearray(node.durable)


@dataclass
class Machine:
    """One log through the lives of its process. `records` is what it has to have, and `check` says so after each
    opening: behind the mark of the decided checkpoint, in order, and all that was synced."""

    seed: int = 0
    records: list[bytes] = field(default_factory=list)
    marks: dict[int, int] = field(default_factory=lambda: {0: 0})  # checkpoint → records before its mark
    decided: int = 0
    synced: int = 0  # records
    on_the_way: Sequence[bytes] = ()  # a group whose append has not returned
    life: int = 0
    numbers: int = 0  # records made

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.disk = SectorDisk(self.random)
        self.files = SimulatedFiles(self.disk, self.random)
        self.log: WorkerLog

    def open(self) -> None:
        """A process opens the log, and checks what it gets."""
        self.life += 1
        self.log = open_log(self.files, PATH, owner=(0, self.life), decided=self.decided, create=True, sizes=SIZES)
        self.check(list(self.log.redo()))

    def check(self, found: list[bytes]) -> None:
        start = self.marks[self.decided]
        had = self.records[start:]
        if len(found) > len(had) and self.on_the_way:
            had += self.on_the_way
            assert found == had, "a group is there as a whole or not at all"
        assert found == had[: len(found)], f"{found} is no prefix of {had}"
        assert start + len(found) >= min(self.synced, len(self.records)), f"{self.synced} were synced; {found} is there"
        self.records = self.records[:start] + found
        self.synced = len(self.records)
        self.on_the_way = ()
        self.marks = {number: at for number, at in self.marks.items() if number <= self.decided}
        assert self.log.synced == self.log.position

    def made(self, sizes: Iterable[int]) -> list[bytes]:
        """New records of these lengths; each differs from all others, if it has 4 bytes."""
        group = []
        for size in sizes:
            self.numbers += 1
            group.append((b"%04d" % self.numbers * (size // 4 + 1))[:size])
        return group

    def append(self, *sizes: int) -> None:
        self.on_the_way = self.made(sizes)
        self.log.append(self.on_the_way)
        self.records += self.on_the_way
        self.on_the_way = ()

    def mark(self, number: int) -> None:
        self.log.mark(number)
        self.marks[number] = len(self.records)

    def decide(self, number: int) -> None:
        """The decision is durable elsewhere before the log hears of it."""
        self.decided = number
        self.log.cut(number)

    def sync(self) -> None:
        self.log.sync()
        self.synced = len(self.records)

    def full(self, *sizes: int) -> None:
        """The disk is full: an append raises, of which nothing is there."""
        self.disk.full = True
        try:
            self.log.append(self.made(sizes))
        except StoreFull:
            return
        finally:
            self.disk.full = False
        raise AssertionError("there was room")

    def short(self, kept: int, *sizes: int) -> None:
        """The disk becomes full in the middle of a group."""
        group = self.made(sizes)
        self.disk.short = kept
        with suppress(StoreFull):
            self.log.append(group)
            raise AssertionError("it was not cut short")

    def kill(self) -> None:
        self.files.end_all()
        self.files.opened.clear()

    def lose_power(self) -> None:
        self.kill()
        self.disk.short = None
        self.disk.lose_power()

    def close(self) -> None:
        self.log.close()


def contents(machine: Machine) -> dict[Path, bytes]:
    """What processes see of the two files."""
    found = {}
    for path in (Path(f"{PATH}.0"), Path(f"{PATH}.1")):
        if (node := machine.disk.node(path)) is not None:
            found[path] = bytes(node.content)
    return found
