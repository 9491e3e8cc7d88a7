"""Whole runs into a PostgreSQL that is restarted, killed and without fsync meanwhile: exact, counted by SQL (F43)."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from postgres_cluster import PASSWORD, Cluster
from postgres_kit import Database
from sink_kit import Alert, Recorder, alert, opened, stored
from sink_kit import until as until_so

from bolts import PostgresSink
from topology.errors import ConfigurationError

pytestmark = pytest.mark.service("postgres")

HERE = Path(__file__).parent
COUNT = 16_000
KEDGE = [sys.executable, "-m", "kedge"]


class Run:
    """`kedge run restarted.py`. All that it says goes to a file, so that no pipe is full, and is told where it goes
    wrong."""

    def __init__(self, process: "subprocess.Popen[bytes]", output: Path) -> None:
        self._process, self._output = process, output

    @property
    def said(self) -> str:
        return self._output.read_text("utf-8", "replace")

    def until(self, condition: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
        """Waits while it runs; what it has said is told where it has ended before, or this has not come."""
        end = time.monotonic() + within_s
        while not condition():
            status = self._process.poll()
            assert status is None, f"it ended with status {status} before {what}; it has said:\n{self.said}"
            assert time.monotonic() < end, f"{what} has not come within {within_s:g} s; it has said:\n{self.said}"
            time.sleep(0.02)

    def ended(self, within_s: float = 90.0) -> int:
        """Its exit status."""
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it has not ended within {within_s:g} s; it has said:\n{self.said}") from None


@contextmanager
def running(cluster: Cluster, folder: Path, *options: str) -> Iterator[Run]:
    environment = {**os.environ, "POSTGRES_OF_TEST": cluster.dsn, "PYTHONPATH": str(HERE.parents[1])}
    command = [
        *KEDGE,
        "run",
        str(HERE / "restarted.py"),
        "--set",
        "dsn=env:POSTGRES_OF_TEST",
        "--set",
        f"count={COUNT}",
    ]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [*command, *options], cwd=folder, env=environment, stdout=said, stderr=subprocess.STDOUT
        )
    try:
        yield Run(process, folder / "said")
    finally:
        process.kill()
        process.wait()


def stored_so_far(database: Database) -> int:
    there = database.do("SELECT to_regclass('doubled') IS NOT NULL AS there")
    return int(database.do("SELECT count(*) AS n FROM doubled")[0]["n"]) if there == [{"there": True}] else 0


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--workers", "2")], ids=["one process", "two workers"])
def test_f43_a_server_that_is_restarted_and_killed_in_mid_run_loses_and_doubles_nothing(
    options: tuple[str, ...], cluster: Cluster, tmp_path: Path
) -> None:
    database = cluster.database
    with running(cluster, tmp_path, *options) as run:
        for times, end in enumerate((cluster.stop, cluster.kill), start=1):
            some = times * COUNT // 5
            run.until(lambda some=some: stored_so_far(database) > some, f"row {some:,}")  # type: ignore[misc]
            end()
            time.sleep(0.5)  # an outage, not a blink
            cluster.start()
            assert stored_so_far(database) < COUNT, f"the run had nothing left to do; it has said:\n{run.said}"
        assert run.ended() == 0, run.said
    assert database.do("SELECT count(*) AS n, count(DISTINCT number) AS m, sum(twice) AS s FROM doubled") == [
        {"n": COUNT, "m": COUNT, "s": COUNT * (COUNT + 1)}
    ]


async def test_c11_a_server_without_fsync_is_refused_unless_that_is_wanted(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.start(fsync="off")
    with pytest.raises(ConfigurationError, match="has fsync = off") as error:
        async with opened(PostgresSink(cluster.dsn)):
            raise AssertionError("opened")
    assert error.value.code is not None
    assert error.value.code.name == "K355"
    async with opened(PostgresSink(cluster.dsn, records=(Alert,), allow_fsync_off=True)) as sink:
        assert "fsync off" in "".join(sink.summary())  # type: ignore[attr-defined]
    assert "does not survive a loss of power (K550)" in caplog.text


async def test_c11_a_commit_that_no_longer_waits_for_its_standby_is_not_taken_for_durable(cluster: Cluster) -> None:
    """Somebody cancels the wait: the server says that it has committed, and warns that no standby may have it."""
    local = Database(f"{cluster.dsn}?options=-csynchronous_commit%3Dlocal", "public")
    waits = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    out = Recorder()
    async with opened(PostgresSink(cluster.dsn, records=(Alert,))) as sink:
        cluster.set(synchronous_standby_names="nobody")
        try:
            sink.execute(alert(1), out)
            await until_so(lambda: bool(local.do(waits)))
            local.do(f"SELECT pg_cancel_backend(pid) FROM ({waits}) AS waiting")
            await until_so(lambda: bool(sink.away or out.acked))
            assert not out.acked
            assert "standby" in sink.away
            await until_so(lambda: bool(local.do(waits)))
            assert not out.acked, "it is known by now, and waits again"
        finally:
            cluster.set(synchronous_standby_names="")
        await until_so(lambda: bool(out.acked))
    assert (out.failed, local.numbers()) == ({}, [1])


async def test_s12_a_password_opens_the_server_and_a_wrong_one_is_not_repeated(cluster: Cluster) -> None:
    from urllib.parse import quote

    where = f"127.0.0.1:{cluster.port}/postgres"
    right = f"postgresql://guarded:{quote(PASSWORD, safe='')}@{where}"
    await stored(PostgresSink(right, schema="public"), [alert(1)])
    assert cluster.database.numbers() == [1]
    wrong = f"postgresql://guarded:{quote(PASSWORD[:-1], safe='')}@{where}"
    with pytest.raises(ConfigurationError) as error:
        async with opened(PostgresSink(wrong)):
            raise AssertionError("opened")
    text = repr(error.value) + str(error.value)
    assert "password authentication failed" in text
    for part in ("kanarienvogel", "7f3a", quote(PASSWORD[:-1], safe="")):
        assert part not in text


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://guarded:kanarien@vogel@HOST/postgres",
        "postgresql://guarded:kanarien/vogel@HOST/postgres",
        "postgresql://guarded:kanarien?vogel@HOST/postgres",
        "postgresql://guarded:kanarien%vogel@HOST/postgres",
        "postgresql://guarded:kanarien vogel@HOST/postgres",
        "host=HOST password=kanarien vogel",
        "host=HOST password='kanarien'vogel'",
        "kanarienvogel",
    ],
)
async def test_s12_a_connection_string_that_can_not_be_read_is_not_repeated(dsn: str, cluster: Cluster) -> None:
    """A password that should have been quoted ends up in the host, the port, the name of an option …"""
    given = dsn.replace("HOST", f"127.0.0.1:{cluster.port}" if "://" in dsn else "127.0.0.1")
    with pytest.raises(ConfigurationError) as error:
        async with opened(PostgresSink(given)):
            raise AssertionError("opened")
    import traceback

    text = "".join(traceback.format_exception(error.value))
    assert "kanarien" not in text
    assert "vogel" not in text
