"""Spark Connect: a driver without a JVM, whose queries run in a server that is already running.

The server calls our function for each batch, in its own Python, which writes to the folders that both sides see. The
driver reads those files. Imported only if the master is sc://….
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from bridge.driver.batch import InBatch, QueryRun, keep
from bridge.driver.connect_end import End, watermarks_see_ends
from bridge.errors import UserError
from bridge.files.input import StreamInput
from bridge.files.query import place
from bridge.spark.master import SETTINGS, wait_for

SAID_MAX: Final = 20  # messages of batches that are kept for the driver
TOLD: Final = "told"  # file in a query's folder: the messages of its batches, as JSON


def start_remote(name: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    """Start a session in the server. Blocks as `wait_for` does. Raises UserError if nothing answers, if this Python
    lacks what a client needs, and for a setting that a client cannot set. SIGTERM ends the session and its queries."""
    try:
        import grpc_status  # noqa: F401  # an extra
    except ImportError as error:
        text = (
            f"Spark Connect needs a package ({error}): {sys.executable} -m pip install 'kedge-streams[spark-connect]'"
        )
        raise UserError(text) from error
    wait_for(master)
    session = SparkSession.builder.remote(master).getOrCreate()
    for key, value in SETTINGS.items():
        with suppress(PySparkException):  # settings that the server fixes when it starts
            session.conf.set(key, value)
    for key, value in settings.items():
        try:
            session.conf.set(key, value)
        except PySparkException as error:
            text = f"the setting {key!r} cannot be set through Spark Connect: {str(error).splitlines()[0]:.300}"
            raise UserError(f"{text}; set it when the server starts, or remove it") from error
    session.dataSource.register(End)
    watermarks_see_ends()

    def end(number: int, _: object) -> None:
        with suppress(Exception):
            session.stop()  # otherwise the server would keep running the queries of this driver
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    return session


class Remote:
    """The function that the server calls for each batch. It is sent to the server, and keeps its counts for as long as
    the query runs."""

    def __init__(self, of: QueryRun, in_batch: InBatch) -> None:
        self.of = of
        self.in_batch = in_batch
        self.status: dict[str, Any] = {
            "life": of.life,
            "epoch": of.epoch.number,
            "rows": 0,
            "said": [],
            "repairing": "",
        }

    def __call__(self, frame: DataFrame, batch: int) -> None:
        try:
            kept = keep(self.of, frame, batch, self.in_batch, self.say)
        except UserError as error:
            self.tell(repairing=str(error))
            raise
        for name, numbers in (kept.before or {}).items():
            StreamInput(self.of.folder.input(name)).say_done(numbers)
        self.tell(rows=self.status["rows"] + kept.rows)
        if kept.ended is not None and self.of.folder.closing() is None:
            self.of.folder.close(self.of.epoch, kept.ended)

    def say(self, text: str) -> None:
        said = self.status["said"]
        self.tell(said=[*said, [said[-1][0] + 1 if said else 1, text]][-SAID_MAX:])

    def tell(self, **changes: object) -> None:
        self.status |= changes
        place(self.of.folder.folder / TOLD, json.dumps(self.status).encode(), durable=False)


class Heard:
    """The driver's side of the messages that a `Remote` writes."""

    def __init__(self, of: QueryRun, say: Callable[[str], None]) -> None:
        self._of = of
        self._say = say
        self._last = 0  # number of the last message

    def hear(self) -> int:
        """Pass on new messages. Return the number of rows. Raises UserError if a batch raised one."""
        try:
            status = json.loads((self._of.folder.folder / TOLD).read_bytes())
        except (FileNotFoundError, ValueError):  # the file is not synced: a power loss may leave it empty
            return 0
        if (status["life"], status["epoch"]) != (self._of.life, self._of.epoch.number):
            return 0
        for number, text in status["said"]:
            if number > self._last:
                self._last = number
                self._say(text)
        if status["repairing"]:
            raise UserError(status["repairing"])
        rows: int = status["rows"]
        return rows
