"""Mutants of the rules about processes and threads: paused is not dead, and too few of them lose nothing. F68, F75.

Rules whose tests look at what a run leaves behind have none (F67, F74): a mutant would leave that, too. Data.
"""

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        rule="F68",
        breaks="time in which the process was stopped counts against who is waited for",
        file="topology/runtime/pausable_wait.py",
        old="min(loop.time() - began, 2 * STEP_S)",
        new="loop.time() - began",
        test="tests/runtime/os_process/test_waiting.py::test_time_in_which_the_process_stood_still_does_not_count_f68",
    ),
    Mutant(
        rule="F75",
        breaks="an input for which no thread can be made is acked",
        file="topology/runtime/tasks/blocking_executor.py",
        old="            self._returned()\n            if isinstance(refused",
        new="            self._returned()\n            return ()\n            if isinstance(refused",
        test="tests/runtime/embedded/test_blocking_ends.py::"
        "test_a_thread_that_can_not_be_made_fails_its_input_which_is_tried_again_f75",
    ),
)
