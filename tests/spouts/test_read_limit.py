"""`ReadLimit`: how much a read asks for over a line that is too slow for whole replies."""

from spouts.broker.read_limit import ReadLimit


def test_a_read_that_times_out_halves_the_next_one_down_to_one() -> None:
    limit = ReadLimit(10.0)
    asked = [limit.of(1_000)]
    for _ in range(12):
        limit.timed_out(asked[-1])
        asked.append(limit.of(1_000))
    assert asked == [1_000, 500, 250, 125, 62, 31, 15, 7, 3, 1, 1, 1, 1]
    assert limit.of(1) == 1


def test_full_and_quick_replies_double_it_and_others_do_not() -> None:
    limit = ReadLimit(10.0)
    limit.timed_out(8)
    for count, took_s in ((4, 2.6), (3, 0.1), (0, 0.1)):
        limit.came(limit.of(100), count, took_s)
        assert limit.of(100) == 4
    limit.came(3, 3, 0.1)  # less was wanted
    assert limit.of(100) == 4
    limit.came(limit.of(100), 4, 2.4)
    assert limit.of(100) == 8
    for _ in range(10):
        limit.came(limit.of(100), limit.of(100), 0.1)
    assert limit.of(100) == 100


def test_a_wanted_read_that_is_smaller_stays_as_it_is() -> None:
    limit = ReadLimit(10.0)
    assert limit.of(7) == 7
    limit.timed_out(100)
    assert limit.of(7) == 7
