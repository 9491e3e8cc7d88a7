"""Mutants of B19: what a topology on Spark makes of a batch that is computed again. Data."""

from typing import Final

from tests.mutants.mutant import Mutant

KILLED: Final = (
    "tests/bridge/test_engine_killed.py::"
    "test_each_timer_fires_once_at_whichever_step_of_a_batch_the_driver_is_killed[4]"
)

MUTANTS: Final = (
    Mutant(
        rule="B19",
        breaks="bolts on Spark are told another time in each attempt at a batch",
        file="bridge/engine/stage.py",
        old="                task = replace(self._task_of(name), clock=self._clock)\n",
        new="                task = self._task_of(name)\n",
        test=KILLED,
    ),
    Mutant(
        rule="B19",
        breaks="bolts on Spark draw something else in each attempt at a batch",
        file="bridge/engine/stage.py",
        old="                random.seed(name.encode() + position)\n",
        new="                pass\n",
        test=KILLED,
    ),
    Mutant(
        rule="B19",
        breaks="a driver that dies while a run ends has timers of the end fire again that have set themselves anew",
        file="bridge/engine/counts_and_timers.py",
        old=" == (inputs,):",
        new=" == ():",
        test=KILLED,
    ),
)
