"""One test body for what every idempotent sink promises, run on each of them (C3, C5, C7, C9, C11, B2 iv, F46)."""

# ruff: noqa: ASYNC240  # tests look at files on the loop: nothing else runs on it

import gc
import logging
import math
import os
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sink_kit import (
    KINDS,
    Alert,
    Everything,
    Kind,
    Level,
    Recorder,
    Sample,
    Verdict,
    alert,
    feed,
    opened,
    sink_key,
    stored,
    task,
    tup,
    until,
)

from topology.core.source import Source
from topology.core.tuples import Tuple
from topology.errors import ConfigurationError
from topology.records import Record


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    assert isinstance(request.param, Kind)
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alerts"


def everything(**changed: Any) -> Everything:
    values: dict[str, Any] = {
        "text": "007",
        "number": 7,
        "real": 1.0,
        "yes": True,
        "data": b"\x00\xff",
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "money": Decimal("1.10"),
        "verdict": Verdict.GUILTY,
        "level": Level.HIGH,
        "mode": "a",
        "maybe": None,
        "parts": (1, 2),
        "names": frozenset({"b", "a"}),
        "nested": Sample("x", 0.5),
    }
    return Everything(**{**values, **changed})


async def test_each_output_is_one_row_and_acked(kind: Kind, path: Path) -> None:
    tuples = [alert(n) for n in range(1, 2001)]
    out = await stored(kind.make(path, batch=64), tuples)
    assert [id(t) for t in out.acked] == [id(t) for t in tuples]
    assert [row["failures"] for row in kind.rows(path)] == list(range(1, 2001))


async def test_the_key_is_origin_identity_and_content_in_24_bytes(kind: Kind, path: Path) -> None:
    await stored(kind.make(path), [alert(1)])
    (row,) = kind.rows(path)
    key = kind.key(row)
    assert len(key) == 24
    assert key[:16] == (3).to_bytes(8, "big") + (7920).to_bytes(8, "big")


async def test_a_replay_is_dropped_and_acked(kind: Kind, path: Path) -> None:
    async with opened(kind.make(path)) as sink:
        await feed(sink, [alert(1), alert(2)])
        out = await feed(sink, [alert(2), alert(1), alert(3)])
        assert len(out.acked) == 3
        assert (sink.stored, sink.duplicates, sink.divergent) == (3, 2, 0)
    assert [row["failures"] for row in kind.rows(path)] == [1, 2, 3]


async def test_a_replay_after_a_restart_is_dropped(kind: Kind, path: Path) -> None:
    prototype = kind.make(path)
    await stored(prototype, [alert(1), alert(2)])
    async with opened(prototype) as sink:
        out = await feed(sink, [alert(1), alert(2), alert(3)])
        assert (len(out.acked), sink.stored, sink.duplicates) == (3, 1, 2)
    assert len(kind.rows(path)) == 3


async def test_c9_a_batch_that_holds_a_tuple_twice_stores_it_once(kind: Kind, path: Path) -> None:
    async with opened(kind.make(path)) as sink:
        out = await feed(sink, [alert(1), alert(2), alert(1), alert(1)])
        assert (len(out.acked), sink.stored, sink.duplicates) == (4, 2, 2)
    assert len(kind.rows(path)) == 2


async def test_c5_one_emission_by_two_subscriptions_is_one_row(kind: Kind, path: Path) -> None:
    first = alert(1)
    second: Tuple[Any] = Tuple(first.record, first.origin, first.identity, 9, (), Source("detect", "Alert", tag=77))
    out = await stored(kind.make(path), [first, second])
    assert len(out.acked) == 2
    assert len(kind.rows(path)) == 1


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "in two runs"])
async def test_b2_another_content_under_one_identity_is_stored_counted_and_named(
    kind: Kind, path: Path, together: bool, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = tup(Alert("192.0.2.1", 5), 1), tup(Alert("192.0.2.1", 6), 1)
    if not together:
        await stored(kind.make(path), [one])
    async with opened(kind.make(path)) as sink:
        out = await feed(sink, [one, other] if together else [other])
        assert not out.failed
        assert sink.divergent == 1
        await feed(sink, [one, other])
        assert sink.divergent == 1, "replays of both are known"
    rows = kind.rows(path)
    assert [row["failures"] for row in rows] == [5, 6]
    assert kind.key(rows[0])[:16] == kind.key(rows[1])[:16]
    assert kind.key(rows[1]).hex() in caplog.text
    assert "not deterministic" in caplog.text


async def test_c11_nothing_is_acked_before_another_reader_sees_it(kind: Kind, path: Path) -> None:
    seen: list[bool] = []

    def look(acked: Tuple[Any]) -> None:
        seen.append(acked.record.failures in {row["failures"] for row in kind.rows(path)})

    async with opened(kind.make(path, batch=10)) as sink:
        await feed(sink, [alert(n) for n in range(1, 101)], Recorder(look))
    assert seen == [True] * 100


@pytest.mark.parametrize(
    ("changed", "kept"),
    [
        ({"text": "007"}, "007"),
        ({"text": ""}, ""),
        ({"text": "a\x00b"}, "a\x00b"),
        ({"text": "\r\n\u2028 \x1b[31m größe 名前 🦆"}, "\r\n\u2028 \x1b[31m größe 名前 🦆"),
        ({"number": -1}, -1),
        ({"number": 2**63 - 1}, 2**63 - 1),
        ({"number": -(2**63)}, -(2**63)),
        ({"real": -0.0}, 0.0),
        ({"real": 5e-324}, 5e-324),
        ({"real": 3}, 3.0),
        ({"yes": False}, False),
        ({"maybe": None}, None),
        ({"maybe": 0}, 0),
        ({"money": Decimal("1E+30")}, "1E+30"),
        ({"verdict": Verdict.GUILTY}, "guilty"),
        ({"level": Level.HIGH}, 3),
        ({"mode": "b"}, "b"),
        ({"at": datetime(2026, 1, 2, tzinfo=UTC)}, "2026-01-02T00:00:00.000000Z"),
        ({"at": datetime(99, 1, 2, 3, 4, 5, 6, tzinfo=UTC)}, "0099-01-02T03:04:05.000006Z"),
        ({"at": datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2)))}, "2026-01-01T22:00:00.000000Z"),
    ],
    ids=lambda value: ascii(value)[:40],
)
async def test_c9_a_value_comes_back_as_it_was(kind: Kind, path: Path, changed: dict[str, Any], kept: Any) -> None:
    out = await stored(kind.make(path), [tup(everything(**changed))])
    assert not out.failed
    (row,) = kind.rows(path)
    (name,) = changed
    assert row[name] == kept


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"real": math.nan}, "nan"),
        ({"real": math.inf}, "inf"),
        ({"real": "1.5"}, "float is declared"),
        ({"real": 10**400}, "does not fit"),
        ({"number": 2**63}, "9223372036854775808 does not fit in 64 bits"),
        ({"number": -(2**63) - 1}, "does not fit"),
        ({"number": True}, "int is declared"),
        ({"number": 1.0}, "int is declared"),
        ({"text": "a\ud800"}, "surrogate"),
        ({"text": b"x"}, "str is declared"),
        ({"text": None}, "str is declared"),
        ({"data": "x"}, "bytes is declared"),
        ({"yes": 1}, "bool is declared"),
        ({"at": "2026-01-02"}, "datetime is declared"),
        ({"at": datetime(2026, 1, 2)}, "no time zone"),  # noqa: DTZ001  # refused for that
        ({"at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2)))}, "outside the years"),
        ({"money": Decimal("NaN")}, "NaN"),
        ({"verdict": "guilty"}, "Verdict is declared"),
        ({"mode": "c"}, "'a' or 'b' is declared"),
        ({"parts": (1, 2**64)}, "does not fit"),
        ({"names": frozenset({"\udfff"})}, "surrogate"),
        ({"nested": Sample("x", math.nan)}, "nan"),
    ],
    ids=lambda value: ascii(value)[:40],
)
async def test_f46_a_bad_value_fails_alone_and_is_named(
    kind: Kind, path: Path, changed: dict[str, Any], said: str
) -> None:
    bad = tup(everything(**changed), 500)
    neighbours = [tup(everything(number=n), n) for n in range(1, 100)]
    out = await stored(kind.make(path), [*neighbours[:50], bad, *neighbours[50:]])
    assert list(out.failed) == [id(bad)]
    (name,) = changed
    assert f"Everything.{name}: " in out.failed[id(bad)]
    assert said in out.failed[id(bad)]
    assert [row["number"] for row in kind.rows(path)] == list(range(1, 100))


async def test_s11_a_reason_shows_a_giant_or_hostile_value_cut_and_escaped(kind: Kind, path: Path) -> None:
    bad = tup(everything(text="\x1b]0;pwn\x07\n" + "x" * 100_000 + "\ud800"))
    out = await stored(kind.make(path), [bad])
    reason = out.failed[id(bad)]
    assert len(reason) < 300
    assert reason.isprintable()


async def test_several_classes_go_into_one_sink(kind: Kind, path: Path) -> None:
    out = await stored(kind.make(path), [alert(1), tup(Sample("s", 1.5), 2), alert(3), tup(Sample("t", 2.5), 4)])
    assert len(out.acked) == 4
    rows = kind.rows(path)
    assert sorted(row["failures"] for row in rows if "failures" in row) == [1, 3]
    assert sorted(row["value"] for row in rows if "value" in row) == [1.5, 2.5]


async def test_a_field_called_key_keeps_its_name_and_our_key_takes_another(kind: Kind, path: Path) -> None:
    class Setting(Record):
        key: str
        record: str

    tuples = [tup(Setting("color", "x"), 1)]
    await stored(kind.make(path), tuples)
    async with opened(kind.make(path)) as sink:
        await feed(sink, tuples)
        assert sink.duplicates == 1
    (row,) = kind.rows(path)
    assert (row["key"], row["record"]) == ("color", "x")
    assert "_key" in row


async def test_a_record_without_fields_is_stored_by_its_key(kind: Kind, path: Path) -> None:
    class Beat(Record):
        pass

    await stored(kind.make(path), [tup(Beat(), 1), tup(Beat(), 2), tup(Beat(), 1)])
    assert len(kind.rows(path)) == 2


async def test_c3_a_line_tells_that_the_first_100_outputs_were_all_known(
    kind: Kind, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tuples = [alert(n) for n in range(1, 301)]
    await stored(kind.make(path, batch=30), tuples)
    assert "duplicates" not in caplog.text
    await stored(kind.make(path, batch=30), tuples[:99])
    assert "duplicates" not in caplog.text
    await stored(kind.make(path, batch=30), tuples)
    assert caplog.text.count("the first 100 outputs were all stored before, by an earlier run") == 1


async def test_c4_more_than_one_task_is_refused_with_the_way_out(kind: Kind, path: Path) -> None:
    sink = kind.make(path)
    with pytest.raises(ConfigurationError, match="'store' has 2 tasks") as raised:
        await sink.open(task(tasks=2))
    assert "tasks=1" in raised.value.next
    await sink.close()
    assert not path.exists()


async def test_a_second_sink_on_the_same_file_is_refused_and_disturbs_nothing(kind: Kind, path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    async with opened(kind.make(path)) as first:
        await feed(first, [alert(1)])
        for same in (path, link):
            with pytest.raises(ConfigurationError, match="written by another sink or process"):
                async with opened(kind.make(same)):
                    pass
        out = await feed(first, [alert(2)])
        assert len(out.acked) == 1
    async with opened(kind.make(link)) as later:
        await feed(later, [alert(1)])
        assert later.duplicates == 1


@pytest.mark.parametrize(
    ("where", "said"),
    [("missing/alerts", "there is no folder"), (".", "is a folder"), ("fifo", "not a regular file"), ("a\0b", "null")],
)
async def test_a_path_that_cant_be_used_is_one_sentence_from_open(
    kind: Kind, tmp_path: Path, where: str, said: str
) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ConfigurationError, match=said) as raised:
        async with opened(kind.make(f"{tmp_path}/{where}")):
            pass
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("settings", [{"batch": 0}, {"batch": True}, {"within_ms": -1}, {"within_ms": math.nan}])
def test_a_wrong_setting_is_refused_by_the_constructor(kind: Kind, path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        kind.make(path, **settings)


async def test_f43_a_file_removed_or_replaced_meanwhile_is_waited_for(kind: Kind, path: Path) -> None:
    async with opened(kind.make(path)) as sink:
        await feed(sink, [alert(1)])
        path.rename(path.with_name("moved"))
        out = Recorder()
        sink.execute(alert(2), out)
        await until(lambda: "removed or replaced" in sink.away)
        assert not out.acked
        path.with_name("moved").rename(path)
        await until(lambda: len(out.acked) == 1)
    assert [row["failures"] for row in kind.rows(path)] == [1, 2]


async def test_close_without_open_and_after_a_failed_open_is_harmless(kind: Kind, tmp_path: Path) -> None:
    never = kind.make(tmp_path / "a")
    await never.close()
    failed = kind.make(tmp_path / "missing" / "a")
    with pytest.raises(ConfigurationError):
        await failed.open(task())
    await failed.close()
    gc.collect()  # a descriptor left open would warn now


async def test_a_good_run_logs_no_warning_and_leaves_one_file(
    kind: Kind, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        await stored(kind.make(path), [alert(n) for n in range(1, 50)])
    assert not caplog.records
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_the_key_of_a_known_content_is_fixed_for_ever() -> None:
    assert sink_key(1, 2, b"content").hex() == "0000000000000001000000000000000255f2b31a6acfaa64"


async def test_the_rows_bytes_that_are_hashed_are_fixed_for_ever(kind: Kind, path: Path) -> None:
    await stored(kind.make(path), [tup(everything())])
    (row,) = kind.rows(path)
    assert kind.key(row)[16:].hex() == {"sqlite": "14d03addd719be6f", "jsonlines": "7736472781271bfe"}[kind.name]
