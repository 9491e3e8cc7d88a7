"""The word count: its result against `collections.Counter`, whatever the order, the workers and the replays."""

from collections import Counter
from pathlib import Path

import pytest
from example_kit import run_example
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.word_count import SENTENCES, Count, CountWords, Leaders, Rank, Split
from spouts import Items, Line
from topology import Topology
from topology.testing import Captured, check_replays, run_bolt, run_topology

Ranking = tuple[tuple[str, int], ...]


def ranking(words: list[str], places: int = 3) -> Ranking:
    """The result, computed at one go."""
    return tuple(sorted(Counter(words).items(), key=lambda one: (-one[1], one[0]))[:places])


def plain_words(text: str) -> list[str]:
    return [word.strip(".,").lower() for word in text.split()]


def counting(text: str, sink: Captured[Leaders], places: int = 3) -> Topology:
    topology = Topology("word-count")
    sentences = topology.spout("sentences", Items(map(Line, text.splitlines())))
    words = topology.bolt("words", Split(), sentences.shuffle())
    counts = topology.bolt("counts", CountWords(), words.fields("word"), tasks=2)
    topology.bolt("sink", sink, topology.bolt("leaders", Rank(places), counts.global_()).shuffle())
    return topology


@pytest.mark.parametrize("line", ["", " ", "1, 2 - 3!", "___", "\0\x1b[31"])
def test_a_line_without_words_has_none(line: str) -> None:
    assert run_bolt(Split(), [Line(line)]).outputs == []


def test_words_are_in_small_letters_and_keep_their_apostrophes() -> None:
    split = run_bolt(Split(), [Line("The spout's DON’T-care; Ätna, 2 o'clock's 'quoted'")]).outputs
    assert [one.word for one in split] == ["the", "spout's", "don’t", "care", "ätna", "o'clock's", "quoted"]


def test_the_state_has_one_number_a_word() -> None:
    words = run_bolt(Split(), [Line("to be or not to be")]).outputs
    done = run_bolt(CountWords(), words, by=("word",))
    assert done.state == {"to": 2, "be": 2, "or": 1, "not": 1}
    assert [one.times for one in done.outputs] == [1, 1, 1, 1, 2, 2]


def test_a_count_that_comes_late_takes_nobody_down() -> None:
    """B6: what was replayed may come after what is newer."""
    counts = [Count("a", 2), Count("b", 1), Count("a", 1), Count("c", 1), Count("b", 2)]
    assert run_bolt(Rank(2), counts).outputs[-1] == Leaders((("a", 2), ("b", 2)))


@pytest.mark.parametrize("seed", range(5))
def test_the_last_line_is_the_result_in_any_order(seed: int) -> None:
    sink = Captured[Leaders]()
    assert run_topology(counting(SENTENCES, sink, places=9), seed=seed).exit_status == 0
    assert sink.records[-1].counts == ranking(plain_words(SENTENCES), places=9)


def test_b4_a_replay_of_every_sentence_changes_nothing() -> None:
    held = check_replays(lambda sink: counting(SENTENCES, sink))
    assert ranking(plain_words(SENTENCES)) in [one.counts for one in held.values()]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text("abcdefg ", min_size=1, max_size=12), min_size=1, max_size=12), st.integers(1, 4))
def test_any_text_has_the_result_that_counting_at_one_go_has(sentences: list[str], places: int) -> None:
    text, sink = "\n".join(sentences), Captured[Leaders]()
    run_topology(counting(text, sink, places), seed=1, replay_all=True)
    results = [(), *(one.counts for one in sink.distinct.values())]
    assert results[-1] == ranking(text.split(), places)


@pytest.mark.parametrize("workers", [1, 2])
def test_run_as_it_is_it_ends_and_prints_the_result_last(tmp_path: Path, workers: int) -> None:
    printed = run_example("word_count.py", cwd=tmp_path, workers=workers).stdout.splitlines()
    lines = [line for line in printed if line[:1].isalpha() and line.split()[-1].isdigit()]
    assert "  ".join(f"{word} {times}" for word, times in ranking(plain_words(SENTENCES))) in lines


def test_a_text_file_is_counted_too(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("It was\r\nthe best of times, it was the worst of times")
    ran = run_example("word_count.py", "--set", "path=book.txt", "--set", "places=4", cwd=tmp_path)
    assert "it 2  of 2  the 2  times 2" in ran.stdout.splitlines()
