"""What batches in a Spark Connect server tell their driver, by a file; and what a client has to have. No server is
needed.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")

from bridge.driver.batch import QueryRun, as_it_is
from bridge.files.query import Epoch, QueryFolder
from bridge.queries.driver_spec import QuerySpec

SPEC = QuerySpec("hourly", "append", {}, "", "Hourly", "")


def life(folder: Path, name: str = "first", epoch: int = 0) -> QueryRun:
    return QueryRun(SPEC, QueryFolder(folder), Epoch(epoch), name)


def ends(folder: Path, said: list[str], **of: Any) -> tuple[Any, Any]:
    """The server's end and the driver's."""
    from bridge.driver.connect import Heard, Remote

    return Remote(life(folder, **of), as_it_is), Heard(life(folder, **of), said.append)


def test_each_word_of_a_batch_is_heard_once_and_rows_are_counted_by_the_server(tmp_path: Path) -> None:
    said: list[str] = []
    remote, heard = ends(tmp_path, said)
    assert heard.hear() == 0
    remote.say("the table has 2 rows")
    remote.tell(rows=7)
    assert [heard.hear(), heard.hear()] == [7, 7]
    remote.say("again")
    heard.hear()
    assert said == ["the table has 2 rows", "again"]


def test_words_are_bounded_and_the_newest_stay(tmp_path: Path) -> None:
    said: list[str] = []
    remote, heard = ends(tmp_path, said)
    for number in range(100):
        remote.say(str(number))
    heard.hear()
    assert said == [str(number) for number in range(80, 100)]


@pytest.mark.parametrize("other", [{"name": "second"}, {"epoch": 1}])
def test_what_another_life_or_epoch_has_told_is_not_heard(tmp_path: Path, other: dict[str, Any]) -> None:
    said: list[str] = []
    remote, _ = ends(tmp_path, said)
    remote.say("old")
    remote.tell(rows=7, repairing="old")
    _, heard = ends(tmp_path, said, **other)
    assert heard.hear() == 0
    assert said == []


def test_words_that_a_loss_of_power_has_cut_are_none(tmp_path: Path) -> None:
    """They are not synced: each driver would die of them, for good."""
    remote, heard = ends(tmp_path, [])
    remote.tell(rows=7)
    (told,) = tmp_path.glob("told")
    told.write_bytes(b"")
    assert heard.hear() == 0
    remote.tell(rows=8)
    assert heard.hear() == 8


def test_what_a_person_has_to_mend_is_raised_in_the_driver_as_it_was_in_the_server(tmp_path: Path) -> None:
    from bridge.errors import UserError

    remote, heard = ends(tmp_path, [])
    remote.tell(repairing="query 'hourly' has a result that Hourly cannot hold: 'at' is NULL")
    with pytest.raises(UserError, match="'at' is NULL"):
        heard.hear()


def test_a_client_without_its_extra_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from bridge.driver.connect import start_remote
    from bridge.errors import UserError

    monkeypatch.setitem(sys.modules, "grpc_status", None)
    with pytest.raises(UserError, match=r"pip install 'kedge-streams\[spark-connect\]'"):
        start_remote("tests", "sc://127.0.0.1:1", {})
