"""Whether the machines that Spark works on see the run's folder, as they have to: there they read what is handed over,
and keep their state. Where one has a folder of its own under that path, that would be found out late, or never.

`check` is called in the driver; the rest runs where Spark's tasks do. Knows files and a session; no query.
"""

import os
import re
import secrets
import socket
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bridge.files.query import place
from topology.codes.startup import STATE_DIR_NOT_SHARED
from topology.errors import ConfigurationError
from topology.user_frames import text_of

PROBE: Final = ".seen"  # a file in the folder, while it is looked for
TASKS_MIN: Final = 16  # that look, as Spark says where only afterwards: more than once on most machines
NOT_RUN: Final = re.compile(r'Cannot run program "(.+?)".*No such file or directory')  # as Java says it
TELLS: Final = "host string, why string"
_TOLD: Final = pa.schema([("host", pa.string()), ("why", pa.string())])


@dataclass
class FolderProbe:
    """One task: whether the probe can be read, and has this text, and the folder be written."""

    probe: str
    text: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deque(batches, maxlen=0)  # its one row says nothing
        if why := self.why():
            yield pa.RecordBatch.from_pylist([{"host": socket.gethostname(), "why": why}], _TOLD)

    def why(self) -> str:
        """What is wrong, a clause that goes on from the folder's name; empty where nothing is."""
        path = Path(self.probe)
        try:
            if path.read_text() != self.text:
                return "is another folder"
        except FileNotFoundError:
            return "is another folder" if path.parent.is_dir() else "is not there"
        except OSError as error:
            return f"can't be read ({error.strerror})"
        return "" if os.access(path.parent, os.W_OK) else "can't be written"


def check(session: Any, folder: Path, tasks: int) -> None:
    """Looks from some tasks of Spark's, more than `tasks`; takes two seconds, and what a first job has to start. Raises
    ConfigurationError where one of them does not see the folder, and so finds no Python where ours is in it. Where the
    job itself fails else that is for the log, or raised where Spark has no words of its own for it: what reads there
    will fail too."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    probe, text = folder / PROBE, secrets.token_hex(8)
    place(probe, text.encode())
    many = max(TASKS_MIN, 2 * tasks)
    try:
        told = session.range(0, many, 1, many).mapInArrow(FolderProbe(str(probe), text), TELLS).collect()
    except (PySparkException, Py4JJavaError) as error:
        if lacks_python(text_of(error), folder):
            raise unseen(folder, "is not there or is another folder") from error
        if isinstance(error, Py4JJavaError):
            raise
        print(f"whether all machines see {folder} could not be asked: {error!s:.500}", file=sys.stderr)
        return
    finally:
        probe.unlink(missing_ok=True)
    for one in told:
        raise unseen(folder, one["why"], one["host"])


def lacks_python(said: str, folder: Path) -> bool:
    """Return whether a process of Spark has not found the Python that `bridge.spark.session` makes in the folder."""
    return any(Path(path).is_relative_to(folder) for path in NOT_RUN.findall(said))


def unseen(folder: Path, why: str = "is not there", host: str = "") -> ConfigurationError:
    """The error of who does not see it."""
    return ConfigurationError(
        f"{folder} {why} on {host or socket.gethostname()}, where Spark works", code=STATE_DIR_NOT_SHARED
    )
