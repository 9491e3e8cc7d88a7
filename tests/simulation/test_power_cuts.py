"""The power fails at any operation on the disk, and what goes on from there is exact: of a whole run's commits, with
what they forget, and of recovery. All operations: `make chaos`; here some of them, drawn by a seed (F20, F56)."""

import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # `tests` is not installed

from tests.simulation.power_cuts import LATER, RECOVERY, all_cuts, failure, live

SEED = 7
SAMPLE = 40


def test_a_run_that_nothing_befalls_commits_puts_its_log_into_the_file_and_forgets() -> None:
    """Or a cut at each of its operations would show little."""
    lived = live(SEED, [])
    kinds = Counter(operation.split()[0] for operation in lived.operations[0])
    assert kinds["write"] > 500
    assert min(kinds["sync"], kinds["truncate"], kinds["name"]) > 5


@pytest.mark.slow
def test_wherever_the_power_fails_inputs_and_timers_count_once_and_nothing_is_drawn_twice_d1_d2_d3_d4_b10() -> None:
    """In the first run, and in the one that recovers from that, with as many tasks and workers, fewer, and more."""
    cuts = all_cuts(SEED)
    for number in Random(SEED).sample(range(len(cuts)), SAMPLE):
        assert not (said := failure(cuts[number], SEED)), f"--seed {SEED} --n {number}: {said}"


def test_recovery_is_in_those_operations_up_to_where_it_reads_on() -> None:
    for first, later in zip((400, 700, 1_000), LATER, strict=True):
        *_, recovered, _ = live(SEED, [first, RECOVERY], later).operations
        assert len(recovered) == RECOVERY - 1
