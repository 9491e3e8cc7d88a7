"""Stores of sinks that are away: what each process that waits for one writes down, for people to be told by the driver.

A note is a file that is written anew each second, and counts for some seconds: a process that is killed takes none
back. Knows files and names; no sinks, no Spark.
"""

import contextlib
import json
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bridge.batches import place

COUNTS_S: Final = 10.0  # after it was written


class AwayNotes:
    """The notes of one topology, in a folder that all of its processes see. `note` is for one process, from any thread
    of it."""

    def __init__(self, folder: Path) -> None:
        """Makes nothing yet."""
        self._folder = folder
        self._own = folder / secrets.token_hex(8)
        self._noted = False

    def note(self, away: Mapping[str, str]) -> None:
        """For which sinks this process waits, and why; for none any more where that is empty. It is only telling: a
        disk that takes no file changes nothing."""
        with contextlib.suppress(OSError):
            if away:
                place(self._own, json.dumps(dict(away)).encode(), durable=False)
            elif self._noted:
                self._own.unlink(missing_ok=True)
            self._noted = bool(away)

    def read(self) -> dict[str, str]:
        """All that is waited for now: sink → why."""
        found: dict[str, str] = {}
        with contextlib.suppress(FileNotFoundError):
            for path in sorted(self._folder.iterdir()):
                if path.name.startswith("."):
                    continue  # being written
                if time.time() - path.stat().st_mtime < COUNTS_S:
                    found |= json.loads(path.read_bytes())
                else:
                    path.unlink(missing_ok=True)
        return found
