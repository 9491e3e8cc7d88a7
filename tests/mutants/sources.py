"""Mutants of what sources owe and are owed: whose ids are whose, what they have given
when a run drains; and of lives that are told apart. A20, B14, D18, F61, F73. Data."""

from typing import Final

from tests.mutants.mutant import Mutant

IDS: Final = "tests/runtime/tasks/test_ids_of_tasks.py::"
RESCALED: Final = "tests/runtime/run/test_rescaled_spout.py::"
DRAINED: Final = "tests/runtime/tasks/test_drained_generators.py::"

NOT_YET: Final = "tests/runtime/worker/test_not_yet.py::"
FOLLOWED: Final = "tests/spouts/test_file_tail_not_yet.py::"
DECIDED: Final = "tests/acker/test_decided.py::"

MUTANTS: Final = (
    Mutant(
        rule="F73",
        breaks="what is not there yet ends the start at once",
        file="topology/runtime/worker/start_wait.py",
        old="            if left_s <= 0:\n",
        new="            if True:\n",
        test=f"{NOT_YET}test_a_spout_that_is_not_there_for_some_seconds_is_waited_for_F73",
    ),
    Mutant(
        rule="F73",
        breaks="a followed file that is not there yet is a mistake",
        file="spouts/file_tail/spout.py",
        old="open_regular(self.path, awaited=self.follow)",
        new="open_regular(self.path)",
        test=f"{FOLLOWED}test_a_missing_file_is_not_there_yet_where_it_is_followed_and_a_mistake_where_it_is_not_F73",
    ),
    Mutant(
        rule="A20",
        breaks="a life that has the number of one that is over is not believed",
        file="acker/frontier.py",
        old="            self._over.discard(owner)\n",
        new="",
        test=f"{DECIDED}test_a_life_that_begins_under_the_number_of_one_that_is_over_is_believed_A20",
    ),
    Mutant(
        rule="A20",
        breaks="of a life, a frontier of another one with its number is believed",
        file="acker/frontier.py",
        old="            if len(notes) < len(frontier.notes):",
        new="            if len(notes) < 0:",
        test=f"{DECIDED}test_a_life_that_begins_under_the_number_of_one_that_is_over_is_believed_A20",
    ),
    Mutant(
        rule="B14",
        breaks="the tasks of a spout share ids, whatever it says",
        file="topology/runtime/tasks/marks.py",
        old="self._ids_of = 0 if shared_ids else task",
        new="self._ids_of = 0",
        test=f"{IDS}test_tasks_whose_ids_are_the_same_lose_none_of_their_messages_B14",
    ),
    Mutant(
        rule="B14",
        breaks="each task has ids of its own, where the spout says that they share them",
        file="topology/runtime/tasks/marks.py",
        old="self._ids_of = 0 if shared_ids else task",
        new="self._ids_of = task",
        test=f"{IDS}test_tasks_that_share_one_set_of_ids_give_each_message_one_identity_B14",
    ),
    Mutant(
        rule="B14",
        breaks="what several tasks with ids of their own have done is passed over in another number of tasks",
        file="topology/storage/rescale/spout_tasks.py",
        old="{} if own_ids else common(begun, by_task)",
        new="common(begun, by_task)",
        test=f"{RESCALED}test_where_that_is_accepted_everything_is_read_again_and_nothing_passed_over_B14",
    ),
    Mutant(
        rule="D18",
        breaks="another number of a spout's tasks is let pass, where state counts twice what is read again",
        file="topology/storage/rescale/spout_tasks.py",
        old="        if self.counts:\n",
        new="        if False:\n",
        test=f"{RESCALED}test_where_state_would_count_twice_another_number_of_tasks_is_refused_D18",
    ),
    Mutant(
        rule="F61",
        breaks="what a generator has yielded is thrown away when the run drains",
        file="topology/runtime/tasks/spout_reader.py",
        old="return not self.draining or bool(self.source.ahead)",
        new="return not self.draining",
        test=f"{DRAINED}test_what_a_generator_has_yielded_is_emitted_before_a_drain_ends_F61",
    ),
    Mutant(
        rule="F61",
        breaks="what a generator yields while the run drains is thrown away",
        file="topology/runtime/tasks/spout_reader.py",
        old="return self.draining and await self.source.late()",
        new="return False",
        test=f"{DRAINED}test_what_a_generator_yields_while_the_run_drains_is_emitted_too_F61",
    ),
)
