"""The table of a comparison: it fits its terminal, says why a mode did not run, and claims no more than is known."""

import pytest
from comparison_kit import comparison, everything, failed, result
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from bridge.compare.report.table import called, exactness, headline, lines, times
from bridge.compare.results import Comparison, Kill


@given(
    columns=st.integers(20, 220), title=st.text(max_size=60), problem=st.text(max_size=400), note=st.text(max_size=300)
)
def test_no_line_is_wider_than_the_terminal_and_each_is_text_s11(
    columns: int, title: str, problem: str, note: str
) -> None:
    shown = everything()
    shown.modes[0].title, shown.modes[4].problem, shown.modes[5].problem = title, problem, problem
    shown.notes.append(note)
    found = [*lines(shown, columns)]
    assert [line for line in found if cell_len(line) > columns] == []
    assert all(line.isprintable() for line in found)


def test_at_80_columns_a_mode_has_a_line_for_its_name_and_one_for_its_figures() -> None:
    found = [*lines(comparison(result("record", "record: kedge run --workers 2", latencies=[0.2, 0.3, 0.4, 9.0])), 80)]
    assert found[:3] == [
        "      p50      p90      p99    p99.9      max   msg/s  CPU s/M   memory  results",
        "record: kedge run --workers 2  exactly once",
        "  0.30 ms   9.0 ms   9.0 ms   9.0 ms   9.0 ms   1,000       42   210 MB       40",
    ]


def test_where_there_is_room_a_mode_has_one_line_and_its_guarantee_ends_it() -> None:
    titles, first, *_ = lines(comparison(result("record"), result("embedded")), 160)
    assert titles.split() == ["p50", "p90", "p99", "p99.9", "max", "msg/s", "CPU", "s/M", "memory", "results", "start"]
    assert first.startswith("record    ")
    assert first.endswith("  exactly once")


@pytest.mark.parametrize(("columns", "kept"), [(60, "msg/s"), (40, "p99"), (20, "p50")])
def test_a_narrow_terminal_has_fewer_columns_and_the_median_last(columns: int, kept: str) -> None:
    assert kept in next(lines(comparison(result()), columns))


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_mode_that_could_not_run_has_its_reason_in_its_row(columns: int) -> None:
    said = " ".join(
        " ".join(lines(comparison(result(), failed("spark:1s", "there is no pyspark here")), columns)).split()
    )
    assert "did not run: there is no pyspark here" in said


def test_a_mode_that_was_cut_short_keeps_its_figures_and_says_why() -> None:
    said = "\n".join(lines(comparison(result(problem="a worker has died", latencies=[3.0])), 100))
    assert "3.0 ms" in said
    assert "did not end: a worker has died" in said


def test_figures_that_are_the_feeders_are_never_shown_as_the_modes() -> None:
    slow = result("embedded", ms=0.1, feeder_limited=True, feeder_lag={"p50": 0.8})
    shown = comparison(result("record", ms=0.3), slow, result("spark:1s", ms=900.0))
    assert (
        "the feeder was the limit, 0.80 ms late at its own p50: the figures show the feeder, not the mode"
        in "\n".join(lines(shown, 120))
    )
    assert "embedded" not in headline(shown)


def test_a_feeder_that_was_late_at_times_is_told_of_the_slowest_results_and_of_no_others() -> None:
    lag = {"p50": 0.001, "p99": 16.0, "max": 20.0}
    late, well = (result(latencies=[0.3] * 97 + [slow] * 3, feeder_lag=lag) for slow in (30.0, 40.0))
    said = "the feeder was 16 ms late at its own p99: the slowest results are not due to the mode alone"
    assert said in "\n".join(lines(comparison(late), 120))
    assert "the feeder" not in "\n".join(lines(comparison(well), 120))
    assert [one.as_json()["late_in_tail"] for one in (late, well)] == [True, False]


def test_what_stands_behind_a_long_title_has_a_line_of_its_own_where_it_would_be_cut() -> None:
    title = "Spark continuous, JVM only (a filter, not this topology)"
    kill = Kill("Spark, driver and JVM", 2.0, 5_600.0, 5_600.0, None)
    said = [*lines(comparison(result("spark:continuous", title, kill=kill)), 80)]
    assert said[said.index(title) + 1] == "  Spark, driver and JVM killed"
    assert not [line for line in said if "…" in line]


def test_where_a_name_stands_alone_it_says_that_its_figures_are_not_the_modes_or_not_all() -> None:
    assert called(result("record")) == "record"
    assert called(result("record", feeder_limited=True)) == "record, the feeder was the limit"
    assert called(result("record", problem="a worker has died")) == "record, did not end"
    assert called(failed("record", "no javac")) == "record"


def test_results_that_were_not_there_once_each_are_counted() -> None:
    said = "\n".join(lines(comparison(result(missing=3, repeated=1, extra=2)), 120))
    assert "not exact: 3 missing, 1 repeated, 2 that no other mode gave, of 40 results" in said
    assert "not exact" not in "\n".join(lines(comparison(result()), 120))


def test_what_came_again_is_told_and_is_exact_behind_a_sink_that_drops_it() -> None:
    again = result(repeated=3, kill=Kill("a worker", 10.0, 120.0, 180.0, None))
    said = "\n".join(lines(comparison(again), 120))
    assert "40 results arrived, and 3 repeats, which a sink drops" in said
    assert "in effect  a worker killed" in said
    assert "not exact" not in said


def test_a_mode_that_ran_and_gave_nothing_is_not_told_as_one_that_did_not_run() -> None:
    said = "\n".join(lines(comparison(result(), result("embedded", latencies=[], throughput_per_s=None)), 100))
    assert "  no results: none of 40,000 messages reached a sink" in said
    assert "did not run" not in said


def test_what_spark_gives_again_without_python_no_sink_could_drop() -> None:
    again = result("spark:continuous", repeated=3, kill=Kill("the driver", 10.0, 120.0, 180.0, None))
    said = "\n".join(lines(comparison(again), 120))
    assert "40 results arrived, and 3 repeats\n" in said
    assert "       no  the driver killed" in said
    assert again.as_json()["exact_in_effect"] is False


def test_whether_what_did_not_end_was_exact_is_not_known() -> None:
    assert exactness(result(problem="interrupted")) == "–"
    assert (exactness(result()), exactness(result(missing=1))) == ("yes", "no")


def test_after_a_kill_as_many_results_of_other_messages_are_no_loss() -> None:
    moved = result(missing=3, extra=3, kill=Kill("a worker", 10.0, 120.0, 180.0, None))
    said = "\n".join(lines(comparison(moved), 120))
    assert (
        "3 of 40 results belong to other messages than in most runs: after a kill, replays come in another order"
        in said
    )
    assert "not exact" not in said
    assert exactness(moved) == "by count"
    assert exactness(result(missing=3, extra=2, kill=moved.kill)) == "no"


def test_with_a_kill_in_the_middle_the_headline_compares_what_that_has_cost() -> None:
    first = result("record", kill=Kill("a worker", 10.0, 120.0, 180.0, None))
    second = result("spark:1s", ms=0.01, kill=Kill("the driver", 10.0, 12_000.0, 180.0, None))
    shown = comparison(first, second, settings={"rate": 1000.0, "kill": True})
    assert headline(shown) == "after a kill no result for 120 ms (record) to 12 s (spark:1s), 100 times as long"
    said = " ".join(" ".join(lines(shown, 80)).split())
    assert "a process of each mode was killed in the middle; the latencies include this" in said


def test_a_kill_has_a_table_of_its_own() -> None:
    shown = comparison(result(kill=Kill("a worker", 10.0, 120.0, 180.0, None)), result("embedded"))
    said = "\n".join(lines(shown, 80))
    assert "     gap  recovered  replayed      exact" in said
    assert "  120 ms     180 ms         –        yes  a worker killed" in said
    assert "recovered" not in "\n".join(lines(comparison(result()), 80))


def test_the_headline_compares_the_medians_of_modes_that_ran_the_topology_to_its_end() -> None:
    slow, jvm = result("spark:1s", latencies=[900.0]), result("spark:continuous", latencies=[0.01])
    cut_short = result("spark:100ms", latencies=[5000.0], problem="it has died")
    shown = comparison(result("record", latencies=[0.3]), slow, jvm, cut_short)
    assert headline(shown) == "p50 from 0.30 ms (record) to 900 ms (spark:1s), 3,000 times as long"
    assert headline(comparison(result())) == ""
    assert headline(Comparison("t", {}, {}, {})) == ""


def test_where_all_was_offered_at_once_the_headline_compares_what_got_through() -> None:
    slow, fast = result("spark:1s", throughput_per_s=1200.0), result("record", throughput_per_s=60_000.0)
    shown = comparison(slow, fast, settings={"rate": None})
    assert headline(shown) == "messages per second from 1,200 (spark:1s) to 60.0k (record), 50 times as many"


@pytest.mark.parametrize(
    ("ratio", "said"), [(1.44, "1.4 times"), (9.94, "9.9 times"), (9.96, "10 times"), (2468, "2,500 times")]
)
def test_a_ratio_has_two_digits(ratio: float, said: str) -> None:
    assert times(ratio) == said


def test_few_results_and_an_early_end_are_told() -> None:
    said = " ".join(" ".join(lines(comparison(result(count=12), interrupted=True, notes=["a note"]), 80)).split())
    assert "p99.9 of fewer than 1,000 results is their maximum; some modes had only 12" in said
    assert "a note" in said
    assert "interrupted: the figures are of the part measured before" in said
