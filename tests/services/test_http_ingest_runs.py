"""Real runs with `HttpIngest`: what clients send under one key until they hear 200 is stored once, whichever process is
killed; and a run that ends answers those who wait."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from feed_kit import stored
from http_kit import JSON, Answered, asked_now, free_port, item_json
from live_run import MANY, SLOW, LiveRun, live, until

FILE = Path(__file__).with_name("http_topology.py")
FEW = 10_000
CLIENTS = 100


class StatelessRun(LiveRun):
    """A run in one process that keeps no state."""

    def __init__(self, folder: Path, settings: dict[str, object]) -> None:
        self.log = folder / "run.log"
        command = [sys.executable, "-m", "kedge", "run", str(FILE), "--no-state"]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )


@contextlib.contextmanager
def running(folder: Path, *options: str, **settings: object) -> Iterator[LiveRun]:
    """As `live`, for "--no-state" too. The run listens at its port."""
    with contextlib.ExitStack() as stack:
        if options == ("--no-state",):
            run: LiveRun = StatelessRun(folder, settings)
            stack.callback(lambda: run.kill_all() if run.process.poll() is None else None)
        else:
            run = stack.enter_context(live(FILE, folder, *options, **settings))
        until(lambda: listens(int(str(settings["port"]))), "the port")
        yield run


def listens(port: int) -> bool:
    try:
        return asked_now(port, target="/healthz", method="GET").status == 200
    except OSError:
        return False


async def client(
    session: aiohttp.ClientSession, port: int, numbers: list[int], wait: str, seen: Counter[Any], batch: int
) -> None:
    """Sends each batch under a key of its own, again and again, until it is answered by 200."""
    for begin in range(0, len(numbers), batch):
        some = numbers[begin : begin + batch]
        body = b"[" + b",".join(map(item_json, some)) + b"]"
        headers = {**JSON, "Idempotency-Key": f"batch-{some[0]}"}
        while True:
            try:
                async with session.post(f"http://127.0.0.1:{port}/?wait={wait}", data=body, headers=headers) as answer:
                    seen[answer.status] += 1
                    if answer.status == 200:
                        break
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                seen[type(error).__name__] += 1
            await asyncio.sleep(0.05)


async def all_clients(port: int, count: int, wait: str, seen: Counter[Any], batch: int) -> None:
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        work = [
            client(session, port, [*range(1 + first, count + 1, CLIENTS)], wait, seen, batch)
            for first in range(CLIENTS)
        ]
        await asyncio.gather(*work)


KILLED: list[tuple[str, str, dict[str, Any]]] = [
    ("nothing", "ack", {}),
    ("a worker", "ack", {"tasks": 2}),
    ("each worker", "ack", {}),
    ("each worker", "settled", {"durability": "checkpoint"}),
    ("the whole run", "settled", {}),
    # what one task has done, another one may be sent again: only the sink knows it for ever
    ("the whole run", "ack", {"tasks": 2, "counts": "false"}),
]


@pytest.mark.parametrize(
    ("count", "batch", "killed", "wait", "settings"),
    [
        (FEW, 1, *KILLED[2]),
        *((FEW, 7, *killed) for killed in KILLED),
        *(pytest.param(MANY, 20, *killed, marks=SLOW) for killed in (KILLED[2], KILLED[4])),
    ],
)
def test_clients_that_retry_until_200_are_stored_exactly_once_and_counted_once(
    tmp_path: Path, count: int, batch: int, killed: str, wait: str, settings: dict[str, Any]
) -> None:
    path, port, seen = tmp_path / "items.db", free_port(), Counter[Any]()
    given = {"port": port, "path": path, **settings}
    sending = threading.Thread(target=lambda: asyncio.run(all_clients(port, count, wait, seen, batch)))
    with live(FILE, tmp_path, **given) as run:
        sending.start()
        until(lambda: len(stored(path)) >= count // 10, "the first messages")
        if killed == "a worker":
            run.kill_worker()
        if killed == "each worker":
            kill_each(run, path, count)
        if killed == "the whole run":
            run.kill_all()
        else:
            sending.join(100)
            assert not sending.is_alive(), seen
            print(run.stop())
    if killed == "the whole run":
        with live(FILE, tmp_path, **given) as again:
            sending.join(100)
            assert not sending.is_alive(), seen
            print(again.stop())
    print(seen)
    assert Counter(stored(path)) == Counter({(number, 1): 1 for number in range(1, count + 1)})
    if killed != "nothing":
        assert any(isinstance(kind, str) for kind in seen), "a connection was lost"


def kill_each(run: LiveRun, path: Path, count: int) -> None:
    """Kills both workers, one after the other, so that the source's is one of them."""
    until(lambda: len(run.workers()) >= 2, "two workers")
    first, second = run.workers()[:2]
    os.kill(first, signal.SIGKILL)
    until(lambda: len(stored(path)) >= count // 4, "some more messages")
    os.kill(second, signal.SIGKILL)


def in_background(port: int, body: bytes, target: str) -> tuple[threading.Thread, list[Answered]]:
    answers: list[Answered] = []
    thread = threading.Thread(target=lambda: answers.append(asked_now(port, body, target)))
    thread.start()
    return thread, answers


@pytest.mark.parametrize("options", [("--workers", "1"), ("--workers", "2")])
@pytest.mark.parametrize("wait", ["ack", "settled"])
def test_a_run_that_is_stopped_answers_the_client_that_waits(
    tmp_path: Path, wait: str, options: tuple[str, ...]
) -> None:
    path, port = tmp_path / "items.db", free_port()
    with running(tmp_path, *options, port=port, path=path) as run:
        body = b'[{"number": 1, "text": "slow"}, {"number": 2, "text": "quick"}]'
        thread, answers = in_background(port, body, f"/?wait={wait}")
        until(lambda: (2, 1) in stored(path), "the quick one")
        assert "items: 2 accepted at 127.0.0.1" in run.stop()
        thread.join(10)
    assert [answer.status for answer in answers] == [200], answers
    assert sorted(stored(path)) == [(1, 1), (2, 1)]


@pytest.mark.parametrize("options", [("--workers", "1"), ("--workers", "2"), ("--no-state",)])
def test_what_was_accepted_is_stored_before_a_run_that_is_stopped_ends(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    path, port = tmp_path / "items.db", free_port()
    with running(tmp_path, *options, port=port, path=path) as run:
        body = b"\n".join(map(item_json, range(1, 9_001)))
        answer = asked_now(port, body, headers={"Content-Type": "application/x-ndjson"})
        assert answer.body == {"accepted": 9_000}
        run.stop()
    assert Counter(stored(path)) == Counter({(number, 1): 1 for number in range(1, 9_001)})


def test_a_run_without_state_answers_who_waits_for_a_checkpoint(tmp_path: Path) -> None:
    path, port = tmp_path / "items.db", free_port()
    with running(tmp_path, "--no-state", port=port, path=path) as run:
        assert asked_now(port, item_json(1), "/?wait=settled").status == 200
        run.stop()


def test_a_dead_message_is_422_and_a_dead_letter(tmp_path: Path) -> None:
    path, port = tmp_path / "items.db", free_port()
    with running(tmp_path, "--workers", "1", port=port, path=path) as run:
        body = b'[{"number": 1, "text": "a"}, {"number": 13, "text": "bad"}]'
        for wait in ("ack", "settled"):
            answer = asked_now(port, body, f"/?wait={wait}", headers={**JSON, "Idempotency-Key": wait})
            assert (answer.status, answer.body["dead"]) == (422, [1])
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(60) == 1, "one is dead"
    said = run.log.read_text()
    assert "message 'ack/1' of 'items' is dead" in said
    assert stored(path) == [(1, 1), (1, 2)]
