"""Marks forget no pair, and few other pairs have the marks of some."""

import random

from bolts.sinks.pair_marks import PairMarks


def test_all_that_was_added_is_among_its_pairs_and_few_others_are() -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    added, others = ([choose.randbytes(16) for _ in range(50_000)] for _ in range(2))
    marks = PairMarks()
    assert marks.among(added) == [], "nothing was added"
    for begin in range(0, len(added), 7_001):
        marks.add(added[begin : begin + 7_001])
    assert marks.among(added) == added
    assert len(marks.among(others)) < 50
    mixed = [added[0], others[0], added[1], others[1]]
    assert [pair for pair in marks.among(mixed) if pair in added] == added[:2]
    assert marks.among(added[:1]) == added[:1]
    assert marks.among([]) == []
