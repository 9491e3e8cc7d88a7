"""`batch_joined` in Spark: a history with a table at rest and with another history, against plain Python; its cuts; and
a driver that dies between any two steps of one."""

import errno
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install 'kedge-streams[spark]'")
pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")

import pyarrow as pa
import pyarrow.parquet as pq
from jobs_kit import HOUR_S, Jobs
from py4j.protocol import Py4JError
from spark_kit import needs_spark

from bridge import Table
from bridge.files.history import Keeping
from topology import Record
from topology.filesystem.safe_files import rename_over

pytestmark = [needs_spark, pytest.mark.timeout(300)]

OWNERS = {"k0": "mail", "k1": "shop"}


class Seen(Record):
    number: int
    key: str | None


class Order(Record):
    key: str | None
    item: str
    number: int  # of its own, which a result does not show


class Known(Record):
    number: int
    key: str | None
    owner: str | None


class Ordered(Record):
    number: int
    key: str | None
    item: str | None


class Revised(Record):
    number: int
    owner: str
    cut: int


def seen(numbers: range) -> list[Seen]:
    return [Seen(one, f"k{one % 3}" if one % 5 else None) for one in numbers]


def orders(numbers: range) -> list[Order]:
    return [Order(f"k{one % 4}" if one % 7 else None, f"item {one}", -one) for one in numbers]


def known(records: list[Seen], owners: dict[str, str], how: str) -> Counter[Any]:
    """The same in plain Python."""
    found = [Known(one.number, one.key, owners.get(one.key or "")) for one in records]
    return Counter(one for one in found if one.owner is not None or how == "left")


def ordered(records: list[Seen], others: list[Order], how: str) -> Counter[Any]:
    """The same in plain Python."""
    found: Counter[Any] = Counter()
    for one in records:
        items = [other.item for other in others if other.key == one.key and one.key is not None]
        found.update(Ordered(one.number, one.key, item) for item in items or ([None] if how == "left" else []))
    return found


def write_owners(path: Path, owners: dict[str, str]) -> Table:
    rows = {"key": [*owners], "owner": [*owners.values()], "number": [-1] * len(owners)}
    beside = path.with_name("new")
    pq.write_table(pa.table(rows), beside)
    beside.replace(path)
    return Table(path)


@pytest.fixture
def jobs(session: Any, tmp_path: Path) -> Jobs:
    return Jobs(session, tmp_path / "query", Known, records=Seen)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_bounded_run_gives_the_join_of_all_records_with_a_table_at_its_end(
    jobs: Jobs, tmp_path: Path, how: str
) -> None:
    table = write_owners(tmp_path / "owners.parquet", OWNERS)
    running = jobs.begin(table, how=how, rows_max=40, fold_segments=2)
    for part in range(5):
        jobs.put(seen(range(part * 30, part * 30 + 30)), task=part % 2)
        running.look()
    assert jobs.folder.ended() is None, "there is no end yet, and no job"
    jobs.end()
    jobs.to_its_end(running)
    assert Counter(jobs.results()) == known(seen(range(150)), OWNERS, how)
    assert len(jobs.folder.batches()) >= 2, "no file has more than 40 rows"
    assert all(jobs.folder.read(number).num_rows <= 40 for number in jobs.folder.batches())
    assert jobs.folder.ended() == {"records": {"0": 3, "1": 2}}
    assert any("job 1 is complete" in one for one in jobs.said)
    running.look()
    assert not running._pending, "nothing is new"


@pytest.mark.parametrize("how", ["inner", "left"])
def test_two_histories_are_joined_with_each_other(session: Any, tmp_path: Path, how: str) -> None:
    jobs = Jobs(session, tmp_path, Ordered, records=Seen, other=Order)
    jobs.put(seen(range(40)))
    jobs.put(orders(range(20)), name="other")
    jobs.put(orders(range(20, 30)), task=1, name="other")
    jobs.end()
    jobs.to_its_end(jobs.begin(how=how))
    assert Counter(jobs.results()) == ordered(seen(range(40)), orders(range(30)), how)


def test_a_stream_without_a_record_ends_without_a_result(session: Any, tmp_path: Path) -> None:
    jobs = Jobs(session, tmp_path, Ordered, records=Seen, other=Order)
    jobs.put(orders(range(20)), name="other")
    jobs.end()
    jobs.to_its_end(jobs.begin(how="left"))
    assert jobs.results() == []
    assert jobs.folder.ended() == {"records": {"0": 0, "1": 0}, "other": {"0": 1, "1": 0}}


def test_each_job_gives_the_whole_join_of_what_is_kept_then_and_a_revision_that_grows(
    session: Any, tmp_path: Path
) -> None:
    jobs = Jobs(session, tmp_path / "query", Revised, records=Seen)
    table = write_owners(tmp_path / "owners.parquet", OWNERS)
    running = jobs.begin(table, keeping=Keeping(HOUR_S, 3 * HOUR_S, 2**40), revision="cut")
    jobs.put(seen(range(50)))
    running.look()
    assert not running._pending, "the first record is not an hour old"
    jobs.clock.s += HOUR_S
    jobs.to_its_end(running)
    first, newest = jobs.results(), jobs.folder.batches()[-1]
    assert Counter(first) == revised(seen(range(50)), OWNERS, 0)

    jobs.clock.s += 10 * HOUR_S
    running.look()
    assert not running._pending, "nothing is new"
    running._forgets_at = 0.0
    running.look()  # what the first job has had is too old now
    jobs.put(seen(range(50, 80)), task=1)
    write_owners(tmp_path / "owners.parquet", {**OWNERS, "k2": "new"})
    running.look()
    jobs.clock.s += HOUR_S
    jobs.to_its_end(running)
    assert Counter(jobs.results(since=newest + 1)) == revised(seen(range(50, 80)), {**OWNERS, "k2": "new"}, 1)
    assert jobs.inputs["records"].done() == {0: 1, 1: 0}


def revised(records: list[Seen], owners: dict[str, str], cut: int) -> Counter[Any]:
    return Counter(Revised(one.number, owners[one.key], cut) for one in records if one.key in owners)


class Killed(Exception):
    """The driver dies here."""


RARE = pytest.mark.slow
STEPS = ["Staged.settle", "Staged.publish"]
RARER = [pytest.param(one, marks=RARE) for one in ("cut", "Staged.begin", "QueryFolder.end", "Staged.clear")]


@pytest.mark.parametrize("step", [*STEPS, *RARER])
def test_a_job_whose_driver_dies_around_a_step_gives_its_results_once_and_of_one_reading_of_its_table(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """C7: it dies before the step, then after it; records come meanwhile, and the table is another one in each life."""
    from bridge.driver import job

    jobs = Jobs(session, tmp_path, Known, records=Seen)
    jobs.put(seen(range(30)))
    jobs.put(seen(range(30, 60)), task=1)
    jobs.end()
    tables = [{**OWNERS, "k2": f"life {life}"} for life in range(3)]
    deaths = 0
    for owners, before in zip(tables, [True, False, None], strict=True):
        table = write_owners(tmp_path / "owners.parquet", owners)
        with monkeypatch.context() as patched:
            if before is not None:
                dying(patched, job, step, before)
            try:
                jobs.to_its_end(jobs.begin(table, how="left", rows_max=20))
            except Killed:
                deaths += 1
        if (jobs.folder.folder / "cut").exists() and before:
            jobs.inputs["records"].begin()
            jobs.put(seen(range(1000, 1010)))  # for another job
    assert deaths == 2
    assert Counter(jobs.results()) in [known(seen(range(60)), one, "left") for one in tables]


def dying(patched: pytest.MonkeyPatch, module: Any, step: str, before: bool) -> None:
    """Dies before the step, or after it."""
    holder, name = (module, "place") if step == "cut" else (getattr(module, step.split(".")[0]), step.split(".")[1])
    does = getattr(holder, name)

    def once(*given: Any, **named: Any) -> Any:
        if before:
            raise Killed
        does(*given, **named)
        raise Killed

    patched.setattr(holder, name, once)


def test_files_of_results_that_are_published_when_the_driver_dies_stay_and_the_others_follow(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = write_owners(tmp_path / "owners.parquet", OWNERS)
    jobs.put(seen(range(100)))
    jobs.end()
    left = 2

    def dies(made: Path, target: Path) -> None:
        nonlocal left
        if "results" in str(target):
            left -= 1
            if left < 0:
                raise Killed
        rename_over(made, target)

    running = jobs.begin(table, how="left", rows_max=10)
    with monkeypatch.context() as patched:
        patched.setattr("bridge.driver.job_results.rename_over", dies)
        with pytest.raises(Killed):
            jobs.to_its_end(running)
    assert len(jobs.folder.batches()) == 2
    first = jobs.results()
    jobs.folder.batch(0).unlink()  # as a spout does with what is done, and is not the newest
    write_owners(tmp_path / "owners.parquet", {"k0": "another"})
    jobs.to_its_end(jobs.begin(table, how="left", rows_max=10))
    assert Counter(first[:10] + jobs.results()) == known(seen(range(100)), OWNERS, "left")


# -- what goes wrong


def test_what_does_not_fit_the_output_is_named_and_nothing_is_kept_of_it(jobs: Jobs, tmp_path: Path) -> None:
    from bridge.errors import UserError

    path = tmp_path / "owners.parquet"
    pq.write_table(pa.table({"key": ["k0"], "owner": [7]}), path)
    with pytest.raises(UserError, match="'owner' is int64, but string is declared"):
        jobs.begin(Table(path))
    jobs.put(seen(range(30)))
    jobs.end()
    running = jobs.begin(write_owners(path, OWNERS), how="left", revision="cut", output=Revised)
    with pytest.raises(UserError, match=r"has a result that Revised cannot hold: 'owner' is NULL in \d+ of 30 rows"):
        jobs.to_its_end(running)
    assert jobs.folder.batches() == []


def test_a_history_of_another_version_of_the_record_is_told_before_a_job_runs(jobs: Jobs, tmp_path: Path) -> None:
    from bridge.errors import UserError

    table = write_owners(tmp_path / "owners.parquet", OWNERS)
    jobs.put(seen(range(30)))
    jobs.begin(table, fold_segments=1).look()
    jobs.classes["records"] = Order
    with pytest.raises(UserError, match="holds another version of the record, with another 'item'"):
        jobs.begin(table)


def test_a_job_that_fails_ends_the_driver_only_where_none_has_run_or_it_fails_again_and_again(
    jobs: Jobs, tmp_path: Path
) -> None:
    path = tmp_path / "owners.parquet"
    jobs.put(seen(range(30)))
    jobs.end()
    running = jobs.begin(write_owners(path, OWNERS))
    path.unlink()
    with pytest.raises(Exception, match="PATH_NOT_FOUND"):
        jobs.to_its_end(running)
    running = jobs.begin(write_owners(path, OWNERS))
    jobs.to_its_end(running)
    jobs.put(seen(range(30, 60)))
    jobs.end()
    path.unlink()
    for _ in range(2):
        while not running._tries:
            running.look()
        running._not_before = 0.0
        running._tries = min(running._tries, 1)
    assert any("the job failed and is tried again: AnalysisException" in one for one in jobs.said)
    newest = jobs.folder.batches()[-1]
    write_owners(path, OWNERS)
    jobs.to_its_end(running)
    assert Counter(jobs.results(since=newest + 1)) == known(seen(range(60)), OWNERS, "inner")


def test_a_database_that_is_away_for_one_job_is_asked_again_whatever_its_driver_raises(jobs: Jobs) -> None:
    """Of the user's function, or of Java's: neither is an error of Spark's."""
    away: list[Callable[[Any], None]] = []

    def owners(session: Any) -> Any:
        for one in away:
            one(session)
        return session.createDataFrame([*OWNERS.items()], "key string, owner string")

    def refused(_: Any) -> None:
        raise ConnectionRefusedError("connection refused")

    def javas(_: Any) -> None:
        raise Py4JError("An error occurred while calling o1.load: no connection")  # as of a driver of JDBC

    jobs.put(seen(range(30)))
    jobs.end()
    running = jobs.begin(Table(owners))
    jobs.to_its_end(running)
    jobs.put(seen(range(30, 60)))
    jobs.end()
    for one in (refused, javas):
        away[:] = [one]
        before = len(jobs.said)
        for _ in range(3):
            running._not_before = 0.0
            if not any("is tried again" in said for said in jobs.said[before:]):
                running.look()
    away.clear()
    running._not_before = 0.0
    newest = jobs.folder.batches()[-1]
    jobs.to_its_end(running)
    assert Counter(jobs.results(since=newest + 1)) == known(seen(range(60)), OWNERS, "inner")
    said = [one for one in jobs.said if "the job failed and is tried again" in one]
    assert ["ConnectionRefusedError" in said[0], "Py4JError" in said[1], len(said)] == [True, True, 2]


def test_a_disk_that_is_full_is_told_once_and_waited_for(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bridge.driver.job_results import Staged

    jobs.put(seen(range(30)))
    jobs.end()
    running = jobs.begin(write_owners(tmp_path / "owners.parquet", OWNERS))

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Staged, "settle", full)
        for _ in range(4):
            running._not_before = 0.0
            running.look()
    assert [one for one in jobs.said if "has no room" in one] == [
        "matched: the disk has no room (No space left on device); the job resumes once it has"
    ]
    running._not_before = 0.0
    jobs.to_its_end(running)
    assert Counter(jobs.results()) == known(seen(range(30)), OWNERS, "inner")
