"""Mutants of D4, D5, D15, D17, E1 and E7: something is forgotten that may come again, taken that is over, or blamed.
Data."""

from typing import Final

from tests.mutants.mutant import Mutant

STALE: Final = "tests/runtime/worker/test_subtrees_stale.py::"
TRIALS: Final = "tests/runtime/poison/test_trials.py::"
DECIDED: Final = "tests/acker/test_decided.py::"
KNOWN: Final = "tests/runtime/state/test_known_inputs.py::"
OVER: Final = "tests/unit/runtime/test_subtrees_over.py::"
LETTERS: Final = "tests/runtime/dead_letters/test_dead_letters.py::"
FRONTIER: Final = "acker/frontier.py"

MUTANTS: Final = (
    Mutant(
        rule="D5",
        breaks="a tuple of an earlier life is taken",
        file=FRONTIER,
        old="        if (self._over and message >> NUMBER_BITS in self._over) or ",
        new="        if ",
        test=f"{DECIDED}test_tuples_of_a_life_that_is_over_and_of_what_it_has_lost_are_refused_D5_P9",
    ),
    Mutant(
        rule="D5",
        breaks="a bolt that may begin sub-trees takes stale inputs",
        file="topology/runtime/tasks/collector.py",
        old="                refuses is not None\n                and (root := tup.root)",
        new="                False\n                and (root := tup.root)",
        test=f"{STALE}test_stale_inputs_are_refused_where_a_sub_tree_may_begin_D5",
    ),
    Mutant(
        rule="D5",
        breaks="a sub-tree is begun for stale inputs alone",
        file="topology/runtime/tasks/collector.py",
        old="        return stale\n",
        new="        return False\n",
        test=f"{STALE}test_what_would_begin_a_sub_tree_for_stale_inputs_alone_is_dropped_D5",
    ),
    Mutant(
        rule="D5",
        breaks="a tuple under a sub-root that stands for a message of a life that is over is taken",
        file=FRONTIER,
        old=" or (self._lost and message in self._lost):",
        new=":",
        test=f"{DECIDED}test_tuples_of_a_life_that_is_over_and_of_what_it_has_lost_are_refused_D5_P9",
    ),
    Mutant(
        rule="D17",
        breaks="a sub-root is in a frontier as soon as one of its inputs is in a decided one",
        file="topology/runtime/worker/subtrees.py",
        old="            while inputs and has(inputs[-1]):\n                inputs.pop()\n",
        new="            if any(map(has, inputs)):\n                inputs.clear()\n",
        test=f"{OVER}test_a_sub_root_is_in_a_frontier_once_a_decided_one_has_all_of_its_inputs_P4",
    ),
    Mutant(
        rule="D15",
        breaks="what belongs to several messages is forgotten once the first is done",
        file=FRONTIER,
        old="        return all(not message or has(message)",
        new="        return any(not message or has(message)",
        test=f"{KNOWN}test_an_input_of_several_messages_is_known_until_all_are_done_P4_D15",
    ),
    Mutant(
        rule="D17",
        breaks="a sub-root stays although it stands for a message that comes again under another number",
        file="topology/runtime/worker/subtrees.py",
        old="        self._lost.add(message)\n",
        new="        pass\n",
        test=f"{OVER}test_a_sub_root_of_a_life_that_is_over_is_lost_until_two_decided_frontiers_have_it",
    ),
    Mutant(
        rule="D17",
        breaks="a sub-root stays although it stands for a message of a life that was over before its worker began",
        file="topology/runtime/worker/subtrees.py",
        old="        self._look_at_lives()\n",
        new="",
        test="tests/runtime/worker/test_subtrees_lost.py::"
        "test_a_sub_root_is_lost_if_it_stands_for_a_life_that_was_over_before_its_worker_began_D17",
    ),
    Mutant(
        rule="E1",
        breaks="what is known of dead messages goes with the next frontier, though they may be replayed by hand",
        file="topology/runtime/worker/worker.py",
        old="        unfinished.update(sub_roots, self.fired.not_done, self.dead_letters.unfinished())",
        new="        unfinished.update(sub_roots, self.fired.not_done)",
        test=f"{LETTERS}test_state_remembers_a_dead_message_while_its_letter_is_there_E1",
    ),
    Mutant(
        rule="E7",
        breaks="deaths that a message was a bystander of count without a cap: one kill during its trial makes it dead",
        file="topology/runtime/poison/trials.py",
        old="                tree.deaths = max(tree.deaths, min(SUSPECT, tree.deaths + counts))",
        new="                tree.deaths += counts",
        test=f"{TRIALS}test_deaths_that_a_message_was_a_bystander_of_make_it_a_suspect_and_no_more_E7",
    ),
    Mutant(
        rule="E18",
        breaks="a message is dead after five replays though more may come: a server that is down makes dead letters",
        file="topology/runtime/tasks/retry_policy.py",
        old="            return crowded and own > AT_END_REPLAYS",
        new="            return own > AT_END_REPLAYS",
        test="tests/runtime/tasks/test_giving_up.py::test_e18_if_nothing_gets_through_all_wait_and_none_is_dead",
    ),
)
