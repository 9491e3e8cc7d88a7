"""How far a comparison is: where each bar stands, what is said beside it, and that it fits its terminal."""

import pytest
from comparison_kit import failed, result
from rich.cells import cell_len

from bridge.compare.job import ComparisonJob, ComparisonRow
from bridge.compare.report.live import Bars, PlainProgress, _lines, found

RECORD, SPARK = (
    ComparisonRow("record", "record", "exactly once"),
    ComparisonRow("spark:1s", "spark:1s, Kedge's settings", "exactly once"),
)


def bars(rounds: int = 2) -> Bars:
    made = Bars(ComparisonJob("alerts.py", seconds=10.0, warm_up_s=2.0, rounds=rounds))
    made.planned([RECORD, SPARK])
    return made


def test_a_bar_goes_from_nothing_to_the_whole_and_never_back() -> None:
    made = bars(rounds=1)
    shares = [made.share(made.bars["record"])]
    made.begun(RECORD, 1)
    for phase, of_s in (("starting", 60.0), ("warm-up", 2.0), ("measuring", 10.0), ("ending", 30.0)):
        for part in (0.0, 0.5, 1.0):
            made.phase(RECORD, phase, part * of_s, of_s)
            shares.append(made.share(made.bars["record"]))
    made.ended(RECORD, result())
    assert shares == sorted(shares)
    assert (shares[0], made.share(made.bars["record"])) == (0.0, 1.0)
    assert shares[-1] <= 1.0
    assert made.whole() == 0.5, "the other one has had no turn"


def test_a_round_is_its_share_of_the_bar() -> None:
    made = bars(rounds=2)
    made.begun(RECORD, 1)
    made.ended(RECORD, result())
    assert made.share(made.bars["record"]) == 0.5
    made.begun(RECORD, 2)
    made.phase(RECORD, "measuring", 5.0, 10.0)
    assert 0.5 < made.share(made.bars["record"]) < 1.0


def test_beside_a_bar_stands_what_goes_on_and_then_what_came_of_it() -> None:
    made = bars()
    made.begun(RECORD, 1)
    made.phase(RECORD, "starting", 1.2, 60.0)
    assert made.bars["record"].said == "starting 1 s", "nobody knows how long a start takes"
    made.phase(RECORD, "measuring", 5.0, 60.0)
    assert made.bars["record"].said == "measuring 5 of 10 s", "what is offered, and not how long may be waited"
    made.phase(RECORD, "measuring", 14.0, 60.0)
    assert made.bars["record"].said == "measuring, waits for results 4 s"
    made.ended(RECORD, result(latencies=[0.3, 12.0]))
    assert made.bars["record"].said == "p50 0.30 ms  p99 12 ms  max 12 ms"


def test_where_all_is_offered_at_once_nobody_knows_how_long_it_takes() -> None:
    made = Bars(ComparisonJob("alerts.py", rate=None, seconds=10.0))
    made.begun(RECORD, 1)
    made.phase(RECORD, "measuring", 14.0, 60.0)
    assert made.bars["record"].said == "measuring 14 s"


def test_a_phase_that_nobody_has_heard_of_is_shown_and_moves_nothing() -> None:
    made = bars()
    made.begun(RECORD, 1)
    made.phase(RECORD, "compiling", 1.0, 0.0)
    assert made.share(made.bars["record"]) == 0.0
    assert made.bars["record"].said == "compiling 1 s"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (failed("spark:1s", "no pyspark"), "did not run: no pyspark"),
        (result(latencies=[2.0], problem="it has died"), "did not end: it has died"),
        (result(latencies=[], throughput_per_s=52_000.0), "52,000 messages/s"),
        (result(latencies=[], throughput_per_s=None), "no results"),
    ],
)
def test_what_a_turn_has_given_is_told_in_a_few_words(given: object, said: str) -> None:
    assert found(given) == said  # type: ignore[arg-type]


def test_the_time_that_is_left_is_told_once_there_is_something_to_guess_it_by() -> None:
    made = bars(rounds=1)
    assert "left" not in made.title(0.5)
    made.begun(RECORD, 1)
    made.ended(RECORD, result())
    assert "0:01:00  about 0:01:00 left" in made.title(60.0)
    made.begun(SPARK, 1)
    made.ended(SPARK, result())
    assert "left" not in made.title(120.0)


@pytest.mark.parametrize("coloured", [True, False])
@pytest.mark.parametrize("columns", [1, 20, 50, 80, 200])
@pytest.mark.parametrize("rows", [1, 5, 24])
def test_the_frame_fits_its_terminal_whatever_is_in_it(columns: int, rows: int, coloured: bool) -> None:
    made = Bars(ComparisonJob("alerts.py"))
    made.planned([ComparisonRow(f"m{number}", f"mode {number} [red]\x1b[2J", "") for number in range(12)])
    made.begun(ComparisonRow("m9", "mode 9 [red]\x1b[2J", ""), 1)
    made.ended(ComparisonRow("m3", "mode 3 [red]\x1b[2J", ""), failed("m3", "no \x1b]0;pwn\x07" + "x" * 300))
    frame, plain = _lines(made, 3.0, columns, rows, coloured)
    assert len(frame) == len(plain) <= max(rows, 2)
    assert [line for line in plain if cell_len(line) > max(columns - 1, 1)] == []
    assert all(line.isprintable() for line in plain), "S11"
    assert "\x1b[2J" not in "".join(frame)
    assert coloured or frame == plain


def test_where_not_all_bars_fit_the_one_whose_turn_it_is_stays() -> None:
    made = Bars(ComparisonJob("alerts.py"))
    rows = [ComparisonRow(f"m{number}", f"mode {number}", "") for number in range(12)]
    made.planned(rows)
    for row in rows:
        made.begun(row, 1)
        shown = [bar.row.title for bar in made.shown(4)]
        assert row.title in shown
        assert len(shown) == 4


def test_without_a_terminal_each_turn_has_a_line_when_it_begins_and_one_when_it_is_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with PlainProgress(ComparisonJob("alerts.py", rounds=2)) as shown:
        shown.planned([RECORD, SPARK])
        shown.begun(RECORD, 1)
        shown.phase(RECORD, "measuring", 1.0, 20.0)
        shown.ended(RECORD, result(latencies=[0.3]))
        shown.note("a note \x1b[31m")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "2 rows to measure, in 2 rounds",
        "round 1 of 2  record: begins",
        "round 1 of 2  record: p50 0.30 ms  p99 0.30 ms  max 0.30 ms",
        "  a note \\x1b[31m",
    ]
