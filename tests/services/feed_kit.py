"""A real run on a `FeedServer`, with something killed while events come, and an exact count at the end."""

import os
import signal
import sqlite3
import threading
import time
from pathlib import Path

from http_kit import FeedServer, item_json
from live_run import LiveRun, live, patience, until

FILE = Path(__file__).with_name("feed_topology.py")
TOGETHER_S = 0.01  # between two portions of events, so that checkpoints are decided meanwhile
PORTIONS = 200


def stored(path: Path) -> list[tuple[int, int]]:
    """The rows of the table: a number, and how often it was counted."""
    if not path.exists():
        return []
    database = sqlite3.connect(path)
    try:
        return database.execute("select number, times from ingest_count").fetchall()
    except sqlite3.OperationalError:  # the table is made with the first row
        return []
    finally:
        database.close()


def feed(server: FeedServer, count: int) -> None:
    size = count // PORTIONS
    for begin in range(1, count + 1, size):
        server.put([*map(item_json, range(begin, min(begin + size, count + 1)))])
        time.sleep(TOGETHER_S)


def check_run(
    server: FeedServer, folder: Path, path: Path, settings: dict[str, object], count: int, killed: str
) -> None:
    """Feed so many events, kill what is named in the middle, and check that each counts once."""
    feeding = threading.Thread(target=feed, args=(server, count))

    def has(share: int) -> None:
        until(lambda: len(stored(path)) >= count * share // 100, f"{share} % of the events", patience(count))

    with live(FILE, folder, **settings) as run:
        feeding.start()
        has(30)
        if killed == "each worker":
            kill(run, 0)
            has(50)
            kill(run, 1)
        if killed == "the whole run":
            run.kill_all()
        if killed == "the server":
            server.stop()
            server.start()
        if killed != "the whole run":
            has(100)
            run.stop()
    if killed == "the whole run":
        with live(FILE, folder, **settings) as again:
            has(100)
            again.stop()
    feeding.join()
    assert sorted(stored(path)) == [(number, 1) for number in range(1, count + 1)]


def kill(run: LiveRun, which: int) -> None:
    """Kill one of the two workers; the source is in one of them."""
    until(lambda: len(run.workers()) >= 2, "two workers")
    os.kill(run.workers()[which], signal.SIGKILL)
