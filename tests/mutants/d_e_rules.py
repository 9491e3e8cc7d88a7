"""Mutants of D4, D5, D15, D17, E1 and E7: something is forgotten that may come again, taken that is over, or blamed.
Data."""

from typing import Final

from tests.mutants.mutant import Mutant

FLOORS: Final = "tests/acker/test_floors.py::"
LINES: Final = "tests/unit/runtime/test_lines.py::"
STALE: Final = "tests/runtime/worker/test_subtrees_stale.py::"
LIVES: Final = "tests/runtime/state/test_earlier_lives.py::"
TRIALS: Final = "tests/runtime/poison/test_trials.py::"

MUTANTS: Final = (
    Mutant(
        rule="D4",
        breaks="what an earlier life has left is forgotten before the new one has caught up",
        file="acker/floors.py",
        old="    return one.caught_up and (",
        new="    return (",
        test=f"{LIVES}test_a_bolt_that_lives_on_does_not_count_twice_what_a_dead_home_gives_again_after_a_while_D4",
    ),
    Mutant(
        rule="D4",
        breaks="a source gives more beyond its durable marks than the line that is kept with them",
        file="topology/runtime/tasks/read_ahead.py",
        old="        self._limit = min(self._limit, given + self.ahead)\n",
        new="        self._limit = given + AHEAD_MAX\n",
        test=f"{LIVES}test_a_source_waits_at_its_line_while_no_commit_is_kept_and_goes_on_with_the_next_D4",
    ),
    Mutant(
        rule="D4",
        breaks="the line shrinks while commits that said more may be the ones that are durable",
        file="topology/runtime/tasks/read_ahead.py",
        old="        self._limit = min(self._limit, given + self.ahead)\n",
        new="        pass\n",
        test=f"{LINES}test_whatever_becomes_durable_no_more_was_emitted_beyond_its_marks_than_it_says",
    ),
    Mutant(
        rule="D4",
        breaks="a life that has not caught up leaves a shorter line to the next one",
        file="topology/runtime/tasks/read_ahead.py",
        old="max(wanted, self._awaited) if self.catching_up else wanted",
        new="wanted",
        test=f"{LINES}test_the_allowance_does_not_shrink_before_this_life_has_caught_up",
    ),
    Mutant(
        rule="D4",
        breaks="a life has caught up once it has come to the newest mark",
        file="topology/runtime/tasks/read_ahead.py",
        old=">= self._awaited for at",
        new="> 0 for at",
        test=f"{LIVES}test_what_is_remembered_for_a_life_that_is_over_is_kept_until_the_next_one_has_given_as_many_more_as_that_could",
    ),
    Mutant(
        rule="D5",
        breaks="a tuple of an earlier life is taken",
        file="acker/progress.py",
        old="else precedes(message, newest)",
        new="else False",
        test=f"{FLOORS}test_what_an_earlier_life_has_left_is_refused_at_once_and_over_once_its_home_has_caught_up_D4_D5",
    ),
    Mutant(
        rule="D5",
        breaks="what is restored ends an earlier life",
        file="acker/floors.py",
        old="known = self._heard >= self.homes and bool(self.homes)",
        new="known = bool(self.homes)",
        test=f"{FLOORS}test_what_is_restored_refuses_but_ends_no_earlier_life_D5",
    ),
    Mutant(
        rule="D5",
        breaks="a bolt that may begin sub-trees takes stale inputs",
        file="topology/runtime/tasks/collector.py",
        old="                floors is not None\n                and (root := tup.root)",
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
        breaks="a tuple under a sub-root whose inputs are stale is taken",
        file="topology/runtime/worker/subtrees.py",
        old="        return frozenset(self._stale)",
        new="        return frozenset()",
        test=f"{STALE}test_a_tuple_of_a_sub_tree_whose_inputs_have_become_stale_is_refused_D5",
    ),
    Mutant(
        rule="D5",
        breaks="a new life begins sub-trees before it has heard what is stale",
        file="topology/runtime/tasks/collector.py",
        old="        if not self.deaf:\n",
        new="        if True:\n",
        test=f"{STALE}test_a_new_life_takes_no_input_before_it_has_heard_what_is_stale_D5",
    ),
    Mutant(
        rule="D5",
        breaks="a home says nothing to a new life while it has no news",
        file="topology/runtime/links/peers.py",
        old="        if self._progress is not None:",
        new="        if False:",
        test="tests/conformance/test_links.py::test_who_is_joined_later_or_once_more_is_told_of_progress_that_is_no_news_D5",
    ),
    Mutant(
        rule="D17",
        breaks="something is forgotten while one that begins sub-trees has not heard that it is done",
        file="acker/agreed_floors.py",
        old="known is None or not _says_as_much(known, announcement)",
        new="False",
        test=f"{STALE}test_nothing_is_forgotten_before_all_who_begin_sub_trees_have_heard_that_it_is_done_D17",
    ),
    Mutant(
        rule="D15",
        breaks="what belongs to several messages is forgotten once the first is done",
        file="acker/floors.py",
        old="        if len(messages) == 1:  # the hot path",
        new="        if messages:  # the hot path",
        test=f"{FLOORS}test_what_belongs_to_several_messages_is_over_once_all_are_and_refused_for_any_D15",
    ),
    Mutant(
        rule="D17",
        breaks="a home that lives on need not be done with what a dead one had begun sub-trees for",
        file="acker/floors.py",
        old="present.first in one.settled",
        new="True",
        test="tests/property/test_floors_model.py::test_nothing_that_may_come_again_is_over_and_all_else_is_in_the_end_D4_D5_D15_D17_E1",
    ),
    Mutant(
        rule="E1",
        breaks="what an earlier life has left of a dead message is forgotten",
        file="acker/floors.py",
        old="        if origin in self.dead:",
        new="        if False:",
        test=f"{FLOORS}test_what_is_dead_is_kept_by_its_origin_and_of_several_all_while_any_is_dead_E1",
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
