"""The live view's table at any size of a terminal: nothing too wide, nothing too long, the troubled first."""

import pytest
from figures_kit import component, figures, worker
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from topology.cli.output.table import Line, lines, wrapped
from topology.runtime.telemetry.metrics import CheckpointFigures

CHECKPOINT = CheckpointFigures(57, 0.2, 34_500, 0.0123, 40, 34_500, 0.5)


def text(line: Line) -> str:
    return "".join(piece for piece, _ in line)


def style_of(found: list[Line], part: str) -> set[str]:
    """Of the pieces that hold this text."""
    return {style for line in found for piece, style in line if part in piece}


@given(
    columns=st.integers(1, 200),
    rows=st.integers(1, 60),
    components=st.integers(0, 120),
    workers=st.integers(0, 64),
    limit=st.text(max_size=300),
    draining=st.booleans(),
    kept=st.sampled_from(["no", "yes", "overdue"]),
)
def test_it_never_is_wider_or_longer_than_it_may_be(
    columns: int, rows: int, components: int, workers: int, limit: str, draining: bool, kept: str
) -> None:
    more = {"checkpoint": CHECKPOINT, "overdue": kept == "overdue"} if kept != "no" else {}
    shown = figures(components, workers, limit=limit, draining="draining: 12 messages left" * draining, **more)
    found = [text(line) for line in lines(shown, columns, rows)]
    assert 1 <= len(found) <= rows
    assert all(cell_len(line) < max(columns, 2) for line in found), found
    assert all(line.isprintable() for line in found), "S11"


def test_at_80_columns_it_has_a_line_of_titles_and_one_for_each_component_and_worker() -> None:
    found = [text(line).rstrip() for line in lines(figures(1, 2), 80, 18)]
    assert found[1:] == [
        "alerts  0:00:12  1,204 records/s  acked 14.4k  pending 3  p50 –  p99 –",
        "         in/s   busy  queued  in hand  latency     p99  failed  replays   dead",
        "lines      12                       0   2.0 ms   10 ms       0        0      0",
        "bolt-0     12   10 %       0        0   2.0 ms               0",
        "worker 0  pid 4711       1.0 handled/s  busy  10 %  queued     0",
        "worker 1  pid 4712       1.0 handled/s  busy  10 %  queued     0",
        "the source 'lines' is the limit: nothing waits, it pauses 0 % of the time",
    ]
    assert set(found[0]) == {"─"}


def test_a_run_that_keeps_something_has_a_line_on_its_last_checkpoint_above_the_bottleneck() -> None:
    found = lines(figures(checkpoint=CHECKPOINT, remembered=(1_234, 512_345)), 80, 18)
    assert text(found[-2]) == "checkpoint 0.2 s ago  34.5 kB in 12 ms  1,234 inputs remembered, 512 kB"
    assert style_of(found, "checkpoint") == {"dim"}
    assert not any("checkpoint" in text(line) for line in lines(figures(), 80, 18))


def test_the_line_on_the_last_checkpoint_fits_80_columns_whatever_the_numbers() -> None:
    most = CheckpointFigures(10**9, 59.94, 999 * 10**6, 99.4, 10**9, 10**12, 99.4)
    found = [text(line) for line in lines(figures(checkpoint=most, remembered=(999_400_000, 999 * 10**6)), 80, 18)]
    assert found[-2] == "checkpoint 59.9 s ago  999 MB in 99 s  999M inputs remembered, 999 MB"


def test_a_checkpoint_that_is_overdue_is_shown_on_a_low_terminal_too_and_in_colour() -> None:
    old = CheckpointFigures(57, 75.0, 34_500, 0.0123, 40, 34_500, 0.5)
    found = lines(figures(checkpoint=old, overdue=True), 80, 8)
    assert "checkpoint 75 s ago" in "".join(text(line) for line in found)
    assert style_of(found, "checkpoint") == {"yellow"}
    assert not any("checkpoint" in text(line) for line in lines(figures(checkpoint=CHECKPOINT), 80, 8))


def test_columns_keep_their_places_whatever_the_numbers_do() -> None:
    small = component(rate=0.0, queued=0, latency_s=None)
    large = component(rate=1_234_567.0, queued=999_999, in_hand=123_456, latency_s=99.9, failed=10**9, busy=1.0)
    first, second = ([text(line) for line in lines(figures(components=(one,)), 100, 20)] for one in (small, large))
    assert first[2] == second[2]
    assert len(first[3]) == len(second[3])


@pytest.mark.parametrize(("columns", "kept"), [(70, "latency"), (60, "busy"), (40, "failed"), (25, "in/s")])
def test_a_narrow_terminal_has_fewer_columns_and_whole_names(columns: int, kept: str) -> None:
    found = [text(line) for line in lines(figures(1), columns, 20)]
    titles = next(line for line in found if "in/s" in line)
    assert kept in titles
    assert any(line.startswith("bolt-0 ") for line in found)


def test_where_there_is_no_room_for_all_the_troubled_are_shown_and_then_the_busiest() -> None:
    crowd = [component(f"bolt-{one}", busy=0.9 if one == 96 else 0.05) for one in range(97)]
    dying = component("dying", kind="spout", dead=1, grown=frozenset({"dead"}))
    away = component("moved", away=True)
    found = [text(line) for line in lines(figures(components=(*crowd, away, dying)), 80, 12)]
    names = [line.split()[0] for line in found]
    assert names[-3:-1] == ["dying", "…"]
    assert "moved" in names
    assert "bolt-96" in names
    assert "… and 92 more" in found


def test_of_many_workers_those_that_are_away_or_have_died_are_shown() -> None:
    crowd = [worker(one) for one in range(62)]
    troubled = [worker(62, away=True, pid=None, deaths=3), worker(63, deaths=1)]
    found = [text(line).rstrip() for line in lines(figures(2, workers=(*crowd, *troubled)), 80, 18)]
    assert "worker 62  is being replaced  died 3 times" in found
    assert any(line.startswith("worker 63  pid 4711") and line.endswith("died once") for line in found)
    assert any(line.startswith("… and ") and line.endswith("more workers") for line in found)
    assert "1 away" in found[1]


@pytest.mark.parametrize(("columns", "rows"), [(80, 18), (60, 12), (40, 8)])
def test_a_worker_that_is_away_is_red_and_one_that_has_died_stays_yellow(columns: int, rows: int) -> None:
    shown = figures(1, workers=(worker(0, away=True, pid=None, deaths=1), worker(1, deaths=1)), deaths=2)
    found = lines(shown, columns, rows)
    assert style_of(found, "is being replaced") == {"bold red"}
    assert style_of(found, "died once") == {"yellow"}
    assert style_of(found, "worker 1") == {"yellow"}


def test_what_grows_is_yellow_and_the_dead_are_red_for_good() -> None:
    now = component(
        "lines", kind="spout", failed=5, replayed=4, dead=1, grown=frozenset({"failed", "replayed", "dead"})
    )
    later = component("lines", kind="spout", failed=5, replayed=4, dead=1)
    for one, name, failed in ((now, "bold red", "yellow"), (later, "", "")):
        found = lines(figures(components=(one,), counts={"dead": 1}), 120, 20)
        row = next(line for line in found if line[0][0].startswith("lines"))
        assert row[0][1] == name
        assert [style for piece, style in row if piece.strip() == "5"] == [failed]
        assert [style for piece, style in row if piece.strip() == "1"] == ["red"]
        assert style_of(found, "dead 1") == {"bold red"}


def test_on_a_terminal_of_a_few_rows_the_run_and_its_troubles_are_left() -> None:
    shown = figures(5, 2, limit="'store' is away", stalled=True, draining="draining: 12 messages left, at most 25 s")
    found = lines(shown, 80, 3)
    assert [text(line) for line in found][1:] == ["draining: 12 messages left, at most 25 s", "'store' is away"]
    assert style_of(found, "'store' is away") == {"yellow"}


def test_a_sentence_is_wrapped_between_words_and_what_is_left_over_is_told() -> None:
    assert wrapped("one two three four", 9, 2) == ["one two", "three fo…"]
    assert wrapped("", 9, 2) == []
    assert wrapped("漢字漢字漢字", 5, 3) == ["漢字", "漢字", "漢字"]
    assert wrapped("x" * 30, 9, 2) == ["x" * 9, "x" * 8 + "…"]


def test_tasks_are_told_with_the_name_and_a_long_name_is_cut() -> None:
    long = component("a" * 60, tasks=12)
    found = [text(line) for line in lines(figures(components=(component("two", tasks=2), long)), 120, 20)]
    assert any(line.startswith("two ×2 ") for line in found)
    assert any(line.startswith("a" * 27 + "…") for line in found)


def test_wide_characters_in_a_name_move_no_column() -> None:
    pair = (component("漢字\x1b[2J"), component("narrow"))
    _, _, titles, first, second, _ = [text(line) for line in lines(figures(components=pair), 120, 20)]
    assert cell_len(titles) == cell_len(first) == cell_len(second)
    assert first.startswith("漢字\\x1b[2J ")
