"""Mutants of what survives: state, what is remembered with it, timers, held inputs. A19, B2, B10, D1 to E4. Data."""

from typing import Final

from tests.mutants.mutant import Mutant

COMMITS: Final = "tests/runtime/checkpoints/test_kept_commits.py::"
VALUES: Final = "tests/runtime/state/test_kept_values.py::"
JOURNALLED: Final = "tests/runtime/state/test_journalled.py::"
TIMERS: Final = "tests/runtime/state/test_timers.py::"
STEPPED: Final = "tests/runtime/state/test_timers_stepped.py::"
OWNERS: Final = "tests/storage/sqlite/test_store_owners.py::"
SLOTS_MOVE: Final = "tests/storage/rescale/test_slots_move.py::"
SLOTS: Final = "tests/runtime/state/test_slots_killed.py::"
HELD: Final = "tests/runtime/tasks/test_held_inputs.py::"
GATHERED: Final = "tests/property/test_keys_gathered.py::"
LOG_COMMIT: Final = "tests/runtime/checkpoints/test_log_commit.py::"
KNOWN: Final = "tests/runtime/state/test_known_inputs.py::"
BOUNDED: Final = "tests/runtime/state/test_known_bounds.py::"
STATE: Final = "tests/runtime/state/test_state.py::"
STATEFUL: Final = "topology/runtime/state/state_executor.py"
KEYS: Final = "topology/runtime/state/key_values.py"
KNOWING: Final = "topology/runtime/state/known_inputs.py"
LOGGING: Final = "topology/runtime/checkpoints/log_commit.py"

MUTANTS: Final = (
    Mutant(
        rule="D1",
        breaks="outputs leave, and inputs are acked, when their records are written and not synced",
        file=LOGGING,
        old="        self._release(self._released if self._synced else self._position)",
        new="        self._release(self._position)",
        test=f"{LOG_COMMIT}test_outputs_leave_when_their_records_are_synced_and_not_when_they_are_written_P8_D1",
    ),
    Mutant(
        rule="D1",
        breaks="what is written while others are synced leaves with them",
        file=LOGGING,
        old="        self._release(future.result())",
        new="        self._release(self._position)",
        test=f"{LOG_COMMIT}test_outputs_leave_when_their_records_are_synced_and_not_when_they_are_written_P8_D1",
    ),
    Mutant(
        rule="D2",
        breaks="what a known input had emitted is not sent again",
        file=STATEFUL,
        old="        if entry.out:\n            self._send(tup, entry)",
        new="        if entry.out:\n            self.ack_input(tup, 0)",
        test=f"{STATE}test_a_replay_of_a_known_input_sends_the_same_outputs_under_its_new_root_D2",
    ),
    Mutant(
        rule="D3",
        breaks="a second attempt does not wait until the log has the first",
        file=STATEFUL,
        old="        if entry.out:\n            self._send(tup, entry)",
        new="        if entry:\n            self._send(tup, entry)",
        test=f"{COMMITS}test_a_second_attempt_that_comes_while_the_first_waits_for_the_log_waits_too_D3",
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
        file="topology/runtime/state/keyed_work.py",
        old="        outputs, size = self.outputs.packed(records) if records else NOTHING\n",
        new="        if state is not None and state.changed:\n            self.keys.put(state.key, state.held(0))\n"
        "        outputs, size = self.outputs.packed(records) if records else NOTHING\n",
        test=f"{VALUES}test_an_input_that_can_not_be_done_changes_nothing_and_fails_alone_D9",
    ),
    Mutant(
        rule="D10",
        breaks="what a full store has not kept is not gathered again",
        file=KEYS,
        old="        self.before = {**self.before, **self._gathered}\n",
        new="",
        test=f"{GATHERED}test_what_was_put_is_stored_once_a_checkpoint_is_decided_however_many_were_given_up_P5",
    ),
    Mutant(
        rule="D10",
        breaks="the worker goes on with a log that could not be synced",
        file=LOGGING,
        old="            self._broke(error)\n            return\n        self._release(future",
        new="            return\n        self._release(future",
        test=f"{LOG_COMMIT}test_a_sync_that_fails_ends_the_worker_and_nothing_leaves_P13",
    ),
    Mutant(
        rule="D11",
        breaks="a checkpoint has the changes of inputs that came after it was gathered",
        file=KEYS,
        old="            now = since.get(key, now)\n",
        new="",
        test=f"{GATHERED}test_what_was_put_is_stored_once_a_checkpoint_is_decided_however_many_were_given_up_P5",
    ),
    Mutant(
        rule="D14",
        breaks="nothing bounds what is remembered",
        file=STATEFUL,
        old="        return super().full or self.known.bytes > self._most",
        new="        return super().full",
        test=f"{BOUNDED}test_over_the_bound_of_bytes_sources_wait_and_go_on_when_messages_are_done_D14",
    ),
    Mutant(
        rule="E4",
        breaks="a source goes on however far it is ahead of its oldest message that is not done",
        file="topology/runtime/tasks/marks.py",
        old="        self._room = self.max_lag - (self.given - steps[0][1] if steps else 0)",
        new="        self._room = self.max_lag",
        test="tests/runtime/tasks/test_positions.py::test_a_task_waits_at_max_lag_and_says_so_E4",
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
        breaks="what a timer has emitted is sent once, whatever becomes of it",
        file="topology/runtime/state/timer_outputs.py",
        old="        elif not retries.closed:\n            self._waiting[pair]",
        new="        elif retries.closed:\n            self._waiting[pair]",
        test=f"{TIMERS}test_what_a_timer_has_put_out_is_sent_again_until_it_is_done_D17",
    ),
    Mutant(
        rule="A19",
        breaks="an input is acked although its key has a state",
        file="topology/runtime/state/rebuilt.py",
        old="        if not self._has(state.key):\n            self._release(state.key)",
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
        file="topology/storage/rescale/known_inputs.py",
        old="placement[task_of_slot(one.entry.slot, len(placement))]",
        new="placement[one.entry.slot % len(placement)]",
        test="tests/storage/rescale/test_slots_move.py::test_whatever_the_plans_were_each_slot_is_where_its_task_is_D7",
    ),
    Mutant(
        rule="D7",
        breaks="what is remembered of inputs is with the first task of a worker, and their keys are with another one",
        file="topology/runtime/state/restore.py",
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
        new="store.replace(Changes(states=[StateChange(component, rows, _digest(rows))]), lasting=False)",
        test=f"{SLOTS_MOVE}test_a_row_leaves_its_store_only_once_it_is_durable_where_it_goes_D7",
    ),
    Mutant(
        rule="D7",
        breaks="what is remembered of inputs is removed where it was before it is durable where it goes",
        file="topology/storage/rescale/known_inputs.py",
        old="entries=rows_of(entries | known_in(stores[home])))",
        new="entries=rows_of(entries | known_in(stores[home])), lasting=False)",
        test=f"{SLOTS_MOVE}test_it_is_completed_wherever_it_was_cut_short_and_whatever_the_next_plan_is_F56",
    ),
    Mutant(
        rule="D4",
        breaks="what is done is forgotten when a checkpoint is packed, and not when it is decided",
        file=KNOWING,
        old="        self._open = found, sum(",
        new="        self.older = found\n        self._open = found, sum(",
        test=f"{KNOWN}test_nothing_is_forgotten_before_the_decision_nor_where_a_checkpoint_is_given_up_P4_P5",
    ),
    Mutant(
        rule="D10",
        breaks="a row that is replaced stays in the digest",
        file=KEYS,
        old="                sums.append(xxh3_64_digest(head + former, seed))",
        new="                pass",
        test=f"{GATHERED}test_what_was_put_is_stored_once_a_checkpoint_is_decided_however_many_were_given_up_P5",
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
