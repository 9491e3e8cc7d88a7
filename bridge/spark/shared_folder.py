"""Check that all machines on which Spark works see the run's folder. They read the handed-over records there, and keep
their state there. Without the check, a machine with another folder under that path would be noticed late or never.

`check` is called in the driver; the rest runs in Spark's tasks. Knows files and a session; must not know a query.
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

PROBE: Final = ".seen"  # name of a file that exists in the folder during the check
TASKS_MIN: Final = 16  # tasks that check; Spark decides where they run, so most machines check more than once
NOT_RUN: Final = re.compile(r'Cannot run program "(.+?)".*No such file or directory')  # Java's message
TELLS: Final = "host string, why string"
_TOLD: Final = pa.schema([("host", pa.string()), ("why", pa.string())])


@dataclass
class FolderProbe:
    """One task of the check: the probe is readable, has this text, and the folder is writable."""

    probe: str
    text: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deque(batches, maxlen=0)  # the row's content does not matter
        if why := self.why():
            yield pa.RecordBatch.from_pylist([{"host": socket.gethostname(), "why": why}], _TOLD)

    def why(self) -> str:
        """Return what is wrong, as a clause that continues the folder's name. Empty if nothing is."""
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
    """Check from more than `tasks` tasks of Spark. Takes two seconds, in addition to what a first job starts. Raises
    ConfigurationError if a task does not see the folder, which is also so if it lacks the Python in that folder. If the
    job fails for another reason, that is logged, or raised if Spark has no words of its own for it; later jobs that
    read there will fail too."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    probe, text = folder / PROBE, secrets.token_hex(8)
    place(probe, text.encode())
    many = max(TASKS_MIN, 2 * tasks)
    try:
        reports = session.range(0, many, 1, many).mapInArrow(FolderProbe(str(probe), text), TELLS).collect()
    except (PySparkException, Py4JJavaError) as error:
        if lacks_python(text_of(error), folder):
            raise unseen(folder, "is not there or is another folder") from error
        if isinstance(error, Py4JJavaError):
            raise
        print(f"could not check that all machines see {folder}: {error!s:.500}", file=sys.stderr)
        return
    finally:
        probe.unlink(missing_ok=True)
    for row in reports:
        raise unseen(folder, row["why"], row["host"])


def lacks_python(said: str, folder: Path) -> bool:
    """Return True if a process of Spark did not find the Python that `bridge.spark.session` makes in the folder."""
    return any(Path(path).is_relative_to(folder) for path in NOT_RUN.findall(said))


def unseen(folder: Path, why: str = "is not there", host: str = "") -> ConfigurationError:
    """Return the error for a machine that does not see the folder."""
    return ConfigurationError(
        f"{folder} {why} on {host or socket.gethostname()}, where Spark works", code=STATE_DIR_NOT_SHARED
    )
