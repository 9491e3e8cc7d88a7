"""Mutants of what survives: state, what is remembered with it, timers, held inputs. A19, B2, B10, D1 to E4. Data."""

from typing import Final

from tests.mutants.mutant import Mutant

COMMITS: Final = "tests/runtime/commits/test_kept_commits.py::"
VALUES: Final = "tests/runtime/state/test_kept_values.py::"
BOUNDS: Final = "tests/runtime/state/test_kept_bounds.py::"
JOURNALLED: Final = "tests/runtime/state/test_journalled.py::"
TIMERS: Final = "tests/runtime/state/test_timers.py::"
STEPPED: Final = "tests/runtime/state/test_timers_stepped.py::"
OWNERS: Final = "tests/storage/sqlite/test_store_owners.py::"
SLOTS_MOVE: Final = "tests/storage/rescale/test_slots_move.py::"
SLOTS: Final = "tests/runtime/state/test_slots_killed.py::"
HELD: Final = "tests/runtime/tasks/test_held_inputs.py::"
REMEMBERING: Final = "tests/property/test_remembering_model.py::"
GATHERED: Final = "tests/property/test_keys_gathered.py::"
HERE: Final = "tests/runtime/commits/test_kept_here.py::"
SYNCED: Final = "tests/runtime/commits/test_kept_synced.py::"
KEEPING: Final = "topology/runtime/commits/group_commit.py"
COMMITTING: Final = "topology/runtime/state/committed.py"

MUTANTS: Final = (
    Mutant(
        rule="D1",
        breaks="outputs leave, and inputs are acked, when a commit is gathered",
        file=COMMITTING,
        old="        self._open, self._open_bytes = [], 0\n",
        new="        self._open, self._open_bytes = [], 0\n        self._let_go(self._gathered)\n",
        test=f"{COMMITS}test_outputs_and_acks_wait_for_the_commit_that_contains_them_D1",
    ),
    Mutant(
        rule="D1",
        breaks="what a commit is in no hurry for waits for the next one of all",
        file=COMMITTING,
        old="            self._group_commit.hurry()",
        new="            pass",
        test=f"{COMMITS}test_a_lone_input_takes_the_time_of_one_commit_D1",
    ),
    Mutant(
        rule="D1",
        breaks="where a commit is made on the loop, outputs leave when it is gathered",
        file=KEEPING,
        old="            changes = self._gathered(parts, lasting=False)\n",
        new="            changes = self._gathered(parts, lasting=False)\n"
        "            for part in parts:\n                part.kept()\n",
        test=f"{HERE}test_a_little_is_kept_in_the_turn_in_which_it_was_processed_and_leaves_in_it_but_not_before_D1",
    ),
    Mutant(
        rule="D1",
        breaks="what must survive a loss of power is kept on the loop, and not synced",
        file=KEEPING,
        old="        self.inline_allowed = store is None or not lasting\n",
        new="        self.inline_allowed = True\n",
        test=f"{HERE}test_where_it_must_survive_a_loss_of_power_nothing_is_kept_on_the_loop",
    ),
    Mutant(
        rule="D4",
        breaks="marks are announced before they are synced",
        file=KEEPING,
        old="        wait = kept and self._syncs and not synced\n",
        new="        wait = False\n",
        test=f"{SYNCED}test_who_is_in_no_hurry_is_told_once_it_is_synced_and_who_is_at_once_D1_D4",
    ),
    Mutant(
        rule="D1",
        breaks="what is committed while others are synced waits for that",
        file=KEEPING,
        old="                await self._sync()\n            return kept\n",
        new="                async with self._one_at_a_time:\n                    await self._sync()\n"
        "            return kept\n",
        test=f"{SYNCED}test_others_are_committed_while_it_is_synced_and_wait_for_nothing_D1",
    ),
    Mutant(
        rule="D1",
        breaks="what is asked for while all parts are written waits for their sync",
        file=KEEPING,
        old="                self.commit_inline()  # … would wait for the disk\n",
        new="",
        test=f"{SYNCED}test_what_is_asked_for_while_it_is_written_does_not_wait_for_the_sync_D1",
    ),
    Mutant(
        rule="D12",
        breaks="commits that were made while others were synced count as durable with them",
        file="topology/storage/sqlite/store.py",
        old="        commits = self._own.commits\n        self._database.sync()\n",
        new="        self._database.sync()\n        commits = self._own.commits\n",
        test="tests/storage/sqlite/test_store_lasting.py::"
        "test_a_commit_that_is_made_while_others_are_synced_is_not_counted_with_them_D12",
    ),
    Mutant(
        rule="D2",
        breaks="what a known input had put out is not sent again",
        file=COMMITTING,
        old="        if entry.row.kept:\n            self._send(tup, entry)",
        new="        if entry.row.kept:\n            self.ack_input(tup, 0)",
        test=f"{COMMITS}test_a_replay_after_a_death_between_commit_and_send_gets_what_was_put_out_D2",
    ),
    Mutant(
        rule="D3",
        breaks="a second attempt does not wait for the commit of the first",
        file=COMMITTING,
        old="        if entry.row.kept:\n            self._send(tup, entry)",
        new="        if entry:\n            self._send(tup, entry)",
        test=f"{COMMITS}test_a_second_attempt_that_comes_while_the_first_waits_for_its_commit_waits_too_D3",
    ),
    Mutant(
        rule="D9",
        breaks="a value whose parts are of another type is kept, and fails all later inputs of its key",
        file="topology/runtime/state/value.py",
        old="        if self._is_whole:",
        new="        if not self._any:",
        test=f"{VALUES}test_a_value_of_another_type_or_without_bytes_fails_its_input_and_changes_nothing_D9",
    ),
    Mutant(
        rule="D9",
        breaks="an output without bytes fails its input when the state has changed",
        file=COMMITTING,
        old="        outputs, size = self._journaled.packed(records) if records else NOTHING\n        pair",
        new="        if state is not None:\n            self.keys.put(slot_of(state.key), state.key, state.content())\n"
        "        outputs, size = self._journaled.packed(records) if records else NOTHING\n        pair",
        test=f"{VALUES}test_an_input_that_can_not_be_done_changes_nothing_and_fails_alone_D9",
    ),
    Mutant(
        rule="D10",
        breaks="what a full store has not kept is not gathered again",
        file=COMMITTING,
        old="        self.keys.not_kept()\n",
        new="",
        test=f"{COMMITS}test_a_disk_that_is_full_for_a_while_fails_doubles_and_recomputes_nothing_D10",
    ),
    Mutant(
        rule="D10",
        breaks="a commit that was cut short while it was written is done twice",
        file=KEEPING,
        old="                self._in_doubt, parts = parts, []",
        new="                self._in_doubt = []",
        test=f"{COMMITS}test_what_is_sent_again_goes_to_whom_routing_chooses_now_D2",
    ),
    Mutant(
        rule="D10",
        breaks="what a full store has not kept on the loop is not gathered again",
        file=KEEPING,
        old="            part.not_kept()\n        self._hurry.set()\n",
        new="            part.kept()\n",
        test=f"{HERE}test_a_disk_that_is_full_when_the_loop_writes_fails_and_doubles_nothing_D10",
    ),
    Mutant(
        rule="D10",
        breaks="the worker goes on with a store that has broken when the loop has written",
        file=KEEPING,
        old="            self._trouble = error\n            self._hurry.set()\n",
        new="            self._in_doubt = []\n",
        test=f"{HERE}test_a_store_that_breaks_when_the_loop_writes_ends_the_worker_without_an_ack_D10_F18",
    ),
    Mutant(
        rule="D11",
        breaks="a commit has the changes of inputs that it does not have",
        file=COMMITTING,
        old="        self._gathered += self._open\n        self._open, self._open_bytes = [], 0\n",
        new="        self._gathered += self._open[:-1]\n        self._open = self._open[-1:]\n",
        test=f"{COMMITS}test_a_commit_has_the_state_of_just_the_inputs_that_it_has_D11",
    ),
    Mutant(
        rule="D14",
        breaks="nothing bounds what is remembered",
        file=COMMITTING,
        old="        return super().full or self.memory.bytes > self._most",
        new="        return super().full",
        test=f"{BOUNDS}test_over_the_bound_of_bytes_sources_wait_and_go_on_when_messages_are_done_D14",
    ),
    Mutant(
        rule="E4",
        breaks="a row of the journal stays as long as anything in it is remembered",
        file="topology/runtime/state/garbage.py",
        old="            executor.refile(newest)",
        new="            executor.refile(0)",
        test=f"{BOUNDS}test_a_stuck_message_and_dead_letters_hold_neither_rows_nor_the_file_up_E1_E4",
    ),
    Mutant(
        rule="D5",
        breaks="rows are forgotten, and the floors by which they were are not kept",
        file="topology/runtime/state/garbage.py",
        old="        changes.floors.extend(",
        new="        list(",
        test=f"{BOUNDS}test_stale_roots_are_refused_after_a_restart_by_what_was_kept_of_floors_D5",
    ),
    Mutant(
        rule="B2",
        breaks="what was drawn at random is remembered in memory alone",
        file="topology/runtime/worker/build.py",
        old='        lasts = declared.shape == "journal" or bolt.recovery',
        new='        lasts = declared.shape == "state" and bolt.recovery',
        test=f"{JOURNALLED}test_what_was_drawn_survives_the_run_B2",
    ),
    Mutant(
        rule="B10",
        breaks="a timer that is set again for a time at which it has fired is the same one",
        file="topology/runtime/state/due_times.py",
        old="        self._past = now + (now in (self._past, self._latest))\n",
        new="        self._past = at\n",
        test=f"{TIMERS}test_one_that_is_set_again_for_a_time_at_which_it_has_fired_fires_again_and_is_another_one",
    ),
    Mutant(
        rule="B10",
        breaks="a timer waits for those that were set before it",
        file="topology/runtime/state/timers.py",
        old="            if self._handle.when() <= at:",
        new="            if self._handle is not None:",
        test=f"{TIMERS}test_a_timer_that_is_due_before_the_others_does_not_wait_for_them",
    ),
    Mutant(
        rule="B10",
        breaks="a timer that fails is tried once more for each input that sets another one of its key",
        file="topology/runtime/state/timers.py",
        old=" and Due(key, name, due) not in self._out:",
        new=":",
        test=f"{TIMERS}test_one_that_fails_for_long_is_tried_again_once_however_many_inputs_move_another_timer",
    ),
    Mutant(
        rule="B10",
        breaks="what a timer has put out is sent once, whatever becomes of it",
        file="topology/runtime/state/timer_outputs.py",
        old="        elif not retries.closed:\n            self._waiting[pair]",
        new="        elif retries.closed:\n            self._waiting[pair]",
        test=f"{TIMERS}test_what_a_timer_has_put_out_is_sent_again_until_it_is_done_D17",
    ),
    Mutant(
        rule="A19",
        breaks="an input is acked although its key has a state",
        file="topology/runtime/state/rebuilt.py",
        old="        if state.key not in self.values:\n            self._release(state.key)",
        new="        self._release(state.key)",
        test=f"{HELD}test_an_input_is_acked_when_its_key_is_cleared_and_not_before_A19",
    ),
    Mutant(
        rule="A19",
        breaks="nothing bounds how many inputs are held",
        file="topology/runtime/state/rebuilt.py",
        old="        return super().full or self._count >= self.bolt.holds_max",
        new="        return super().full",
        test=f"{HELD}test_sources_wait_where_as_many_are_held_as_may_be_and_are_told_why",
    ),
    Mutant(
        rule="D6",
        breaks="a commit does not look whether the file is as its owner has left it",
        file="topology/storage/sqlite/header.py",
        old='SET body = ?, sum = ? WHERE one = 1 AND sum = ?", (body, sum, before))',
        new='SET body = ?, sum = ? WHERE one = 1", (body, sum))',
        test=f"{OWNERS}test_a_commit_into_a_file_that_somebody_else_has_written_to_is_not_made_and_none_after_it_D6",
    ),
    Mutant(
        rule="D6",
        breaks="a worker of an earlier start may open a store that a later one has had",
        file="topology/storage/sqlite/header.py",
        old="owner[1] < kept[1]",
        new="False",
        test=f"{OWNERS}test_one_of_an_earlier_start_that_comes_late_is_refused_and_changes_nothing_D6",
    ),
    Mutant(
        rule="D7",
        breaks="what is remembered of inputs is filed in another store than their keys, after a change of workers",
        file="topology/storage/rescale/journal.py",
        old="placement[task_of_slot(one.slot, len(placement))]",
        new="placement[one.slot % len(placement)]",
        test="tests/storage/rescale/test_slots_move.py::test_whatever_the_plans_were_each_slot_is_where_its_task_is_D7",
    ),
    Mutant(
        rule="D7",
        breaks="what is remembered of inputs is with the first task of a worker, and their keys are with another one",
        file="topology/runtime/state/garbage.py",
        old="if (at := task_of_slot(entry.slot, count)) in tasks:",
        new="if (at := min(tasks)) in tasks:",
        test=f"{SLOTS}test_what_was_drawn_once_is_found_by_a_replay_in_another_task_and_worker_B2_D7",
    ),
    Mutant(
        rule="D7",
        breaks="rows are removed where they were before they are where they go",
        file="topology/storage/rescale/partition.py",
        old="                _put(target, component, missing)\n            _take(source, component, page)\n",
        new="                pass\n"
        "            _take(source, component, page)\n"
        "            if missing:\n"
        "                _put(target, component, missing)\n",
        test=f"{SLOTS_MOVE}test_it_is_completed_wherever_it_was_cut_short_and_whatever_the_next_plan_is_F56",
    ),
    Mutant(
        rule="D7",
        breaks="rows are removed where they were before they are durable where they go",
        file="topology/storage/rescale/partition.py",
        old="store.commit(Changes(states=[StateChange(component, rows, _digest(rows))]))",
        new="store.commit(Changes(states=[StateChange(component, rows, _digest(rows))], lasting=False))",
        test=f"{SLOTS_MOVE}test_a_row_leaves_its_store_only_once_it_is_durable_where_it_goes_D7",
    ),
    Mutant(
        rule="D7",
        breaks="what is remembered of inputs is removed where it was before it is durable where it goes",
        file="topology/storage/rescale/journal.py",
        old="        target.commit(Changes(journal=_rows(target, parts)))",
        new="        target.commit(Changes(journal=_rows(target, parts), lasting=False))",
        test=f"{SLOTS_MOVE}test_it_is_completed_wherever_it_was_cut_short_and_whatever_the_next_plan_is_F56",
    ),
    Mutant(
        rule="D4",
        breaks="a row of which inputs were forgotten alone is forgotten as if it were whole",
        file="topology/runtime/state/dedup.py",
        old="        row.live -= 1\n        row.size = -1\n",
        new="        row.live -= 1\n",
        test=f"{REMEMBERING}test_nothing_that_may_come_again_is_forgotten_and_all_else_is_in_the_end_D4",
    ),
    Mutant(
        rule="D4",
        breaks="inputs of a row that is not done as a whole are never looked at one by one",
        file="topology/runtime/state/dedup.py",
        old="turn.passed >= PASSED_MAX or",
        new="turn.passed < 0 or",
        test=f"{REMEMBERING}test_what_is_stuck_does_not_hold_up_that_all_else_is_forgotten_as_it_comes_E4",
    ),
    Mutant(
        rule="D4",
        breaks="a row is done where its last message is",
        file="acker/floors.py",
        old="        return at == len(unfinished) or unfinished[at] > last\n",
        new="        return at == len(unfinished) or unfinished[at] != last\n",
        test=f"{REMEMBERING}test_nothing_that_may_come_again_is_forgotten_and_all_else_is_in_the_end_D4",
    ),
    Mutant(
        rule="D10",
        breaks="what a full store has not kept leaves the digest as if it had been kept",
        file="topology/storage/encoding/state.py",
        old="            if key in undone:\n                before = undone[key][1]\n",
        new="",
        test=f"{GATHERED}test_what_was_put_is_on_the_disk_once_a_commit_is_kept_however_many_were_not_D10",
    ),
    Mutant(
        rule="B15",
        breaks="a worker does not know which timers have fired in the lives before it",
        file="topology/runtime/state/due_times.py",
        old="        self._latest, self._stepped_back = fired\n",
        new="        pass\n",
        test=f"{STEPPED}test_a_timer_that_is_set_again_by_a_later_run_whose_clock_was_stepped_back_is_another_one_B15",
    ),
    Mutant(
        rule="B15",
        breaks="a store that a key comes to does not know which of its timers have fired elsewhere",
        file="topology/storage/rescale/assign.py",
        old="            shared(stores)\n",
        new="",
        test=f"{STEPPED}test_it_is_another_one_whichever_task_of_whichever_worker_has_its_key_now_B15",
    ),
)
