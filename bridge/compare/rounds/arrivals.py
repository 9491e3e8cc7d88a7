"""The arrivals that the probes of a run have written, read while they write, or after they are gone. Knows only
files."""

import mmap
from pathlib import Path

from bridge.compare.rounds.judge import Arrival
from bridge.compare.workload.topology import ARRIVED, CHUNK, PROBES


class Arrivals:
    """The files of one run; each look continues where the last one ended."""

    def __init__(self, run: Path) -> None:
        self._folder = run / PROBES
        self._maps: dict[str, mmap.mmap] = {}
        self._at: dict[str, int] = {}
        self.found: list[Arrival] = []

    def look(self) -> int:
        """Read the new arrivals; return how many there are in all."""
        for path in sorted(self._folder.iterdir()):
            if path.name not in self._maps and path.stat().st_size >= CHUNK:  # the file has its full size
                with open(path, "rb") as file:
                    self._maps[path.name] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                self._at[path.name] = 0
        for name, content in self._maps.items():
            self._at[name] = self._read(name.rsplit(".", 2)[0], content, self._at[name])
        return len(self.found)

    def close(self) -> None:
        """Close the files; the arrivals found stay."""
        while self._maps:
            self._maps.popitem()[1].close()

    def _read(self, sink: str, content: mmap.mmap, at: int) -> int:
        while at + ARRIVED.size <= len(content):
            origin, identity, when = ARRIVED.unpack_from(content, at)
            if not when:
                break
            self.found.append(Arrival(sink, origin, identity, when))
            at += ARRIVED.size
        return at
