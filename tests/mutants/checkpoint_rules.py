"""Mutants of checkpoints: the rules P1 to P16 of `docs/internals/checkpoints.md`. Data."""

from typing import Final

from tests.mutants.mutant import Mutant

COORDINATOR: Final = "tests/runtime/checkpoints/test_coordinator_order.py::"
ENDS: Final = "tests/runtime/checkpoints/test_worker_checkpoints.py::"
LOG_COMMIT: Final = "tests/runtime/checkpoints/test_log_commit.py::"
OVERDUE: Final = "tests/runtime/checkpoints/test_overdue.py::"
KNOWN: Final = "tests/runtime/state/test_known_inputs.py::"
STATE: Final = "tests/runtime/state/test_state.py::"
STORE: Final = "tests/storage/test_worker_store.py::"
RESOLVE: Final = "tests/storage/rescale/test_resolve.py::"
DECISION: Final = "tests/storage/directory/test_decision.py::"
LETTERS: Final = "tests/runtime/dead_letters/test_dead_letters.py::"
LOG: Final = "tests/storage/log/test_log_"

TAKING: Final = "topology/runtime/checkpoints/coordinator.py"
WORKING: Final = "topology/runtime/checkpoints/worker_checkpoints.py"
LOGGING: Final = "topology/runtime/checkpoints/log_commit.py"
KNOWING: Final = "topology/runtime/state/known_inputs.py"
STATEFUL: Final = "topology/runtime/state/state_executor.py"

STEPS: Final = f"{COORDINATOR}test_each_step_begins_when_all_have_answered_the_one_before_P1_P5_P6"

MUTANTS: Final = (
    Mutant(
        rule="P1",
        breaks="snapshots are gathered as soon as the first home has noted what is done",
        file=TAKING,
        old="        if not self._waits_for and self._answers is not None",
        new="        if self._answers is not None",
        test=STEPS,
    ),
    Mutant(
        rule="P1",
        breaks="a worker gathers at the barrier once more, after a frame had it gather",
        file=WORKING,
        old="        if now.stage is CheckpointStage.NOTED:\n            self._gather(now)\n"
        "        if self._why_broken:",
        new="        self._gather(now)\n        if self._why_broken:",
        test=f"{ENDS}test_a_snapshot_is_gathered_once_though_a_frame_came_before_the_barrier_P1",
    ),
    Mutant(
        rule="P2",
        breaks="the marks of a checkpoint are those of the commit",
        file=WORKING,
        old="        for part in self._gathered:\n            part.pack(now.changes, frontier)\n",
        new="        now.changes.marks.clear()\n        for noted in self._noted:\n"
        "            noted.gather(now.changes)\n"
        "        for part in self._gathered:\n            part.pack(now.changes, frontier)\n",
        test=f"{ENDS}test_the_marks_of_a_checkpoint_are_those_of_the_note_and_not_of_the_commit_P2",
    ),
    Mutant(
        rule="P3",
        breaks="a worker begins at a checkpoint that was prepared, decided or not",
        file="topology/storage/worker_store.py",
        old="store.resolve(max(decided, store.checkpoint))",
        new="store.resolve(max(decided, store.checkpoint, store.prepared))",
        test=f"{STORE}test_without_a_log_what_is_not_decided_is_not_there_P5",
    ),
    Mutant(
        rule="P4",
        breaks="of a home's messages, those are forgotten too that are older than its newest one and not done",
        file="topology/runtime/state/lookups.py",
        old="            if message <= newest and messages not in unfinished:",
        new="            if message <= newest:",
        test=f"{KNOWN}test_an_input_is_known_until_a_decided_frontier_has_its_message_P4",
    ),
    Mutant(
        rule="P4",
        breaks="what a frontier has is refused at the barrier, before it is decided",
        file=WORKING,
        old="        now.frontier, now.alone = frontier, alone\n",
        new="        now.frontier, now.alone = frontier, alone\n        self.decided_facts.frontier = frontier\n",
        test=f"{ENDS}test_nothing_is_refused_or_forgotten_before_the_decision_and_all_of_it_from_then_on_P4",
    ),
    Mutant(
        rule="P4",
        breaks="what a decided frontier has is not refused",
        file=WORKING,
        old="        self.decided_facts.frontier = now.frontier\n",
        new="",
        test=f"{ENDS}test_nothing_is_refused_or_forgotten_before_the_decision_and_all_of_it_from_then_on_P4",
    ),
    Mutant(
        rule="P5",
        breaks="workers are told of a decision that is not durable",
        file=TAKING,
        old="        if self._bytes and not alone:\n            self._present",
        new="        if self._bytes < 0 and not alone:\n            self._present",
        test=STEPS,
    ),
    Mutant(
        rule="P5",
        breaks="what a checkpoint had that was given up is in none",
        file=WORKING,
        old="            for gathered in self._gathered:\n                gathered.not_kept()\n",
        new="            pass\n",
        test=f"{ENDS}test_on_a_full_disk_the_checkpoint_is_given_up_and_the_next_one_has_all_of_it_P14",
    ),
    Mutant(
        rule="P5",
        breaks="an answer that belongs to a checkpoint that was given up counts for the next one",
        file=TAKING,
        old="        return self._present == (checkpoint, step) and",
        new="        return self._present[1] == step and",
        test=f"{COORDINATOR}test_answers_of_a_checkpoint_that_was_given_up_count_for_no_other_P5",
    ),
    Mutant(
        rule="P6",
        breaks="a checkpoint begins while the one before is under way",
        file=TAKING,
        old="        async with self._one_at_a_time:\n            return await self._take()",
        new="        if True:\n            return await self._take()",
        test=STEPS,
    ),
    Mutant(
        rule="P6",
        breaks="a worker notes a checkpoint before it has taken in the decision of the one before",
        file=WORKING,
        old="        elif now is not None and now.stage is CheckpointStage.DECIDED:\n            why =",
        new="        elif False:\n            why =",
        test=f"{ENDS}test_no_checkpoint_is_noted_while_the_decision_before_is_being_taken_in_P6",
    ),
    Mutant(
        rule="P7",
        breaks="a known input that comes again sends its outputs without their roots",
        file=STATEFUL,
        old="self._inputs.emit(tup, self.records_of(entry), entry) if",
        new="0 if",
        test=f"{STATE}test_a_replay_of_a_known_input_sends_the_same_outputs_under_its_new_root_D2",
    ),
    Mutant(
        rule="P8",
        breaks="outputs leave of inputs whose records a full log has not taken",
        file=LOGGING,
        old="        if not self._unwritten:\n            for part in self._parts:\n                part.written(0)",
        new="        for part in self._parts:\n            part.written(0)",
        test=f"{LOG_COMMIT}test_nothing_leaves_that_a_full_log_has_not_and_all_of_it_once_there_is_room_P8_P14",
    ),
    Mutant(
        rule="P8",
        breaks="what was done before a snapshot stands in the log behind its mark",
        file=LOGGING,
        old="            self._take()\n            self._append()\n        self._store.mark(checkpoint)",
        new="            pass\n        self._store.mark(checkpoint)",
        test=f"{LOG_COMMIT}test_a_mark_stands_behind_all_that_was_done_before_it_P8",
    ),
    Mutant(
        rule="D5",
        breaks="a worker that begins while the run goes on takes what all others refuse",
        file="topology/testing/virtual_time/crashing_run.py",
        old="        self._control.tell(worker, partial(worker.decided.resume, self._coordinator.frontier, over))\n",
        new="",
        test="tests/runtime/state/test_stale_in_new_life.py::"
        "test_a_tuple_of_a_message_that_is_done_is_refused_by_a_new_life_D5",
    ),
    Mutant(
        rule="D5",
        breaks="a process that replaces one is not told what all others know",
        file="topology/runtime/supervisor/fleet.py",
        old="            handle.say(Resume(",
        new="            (Resume(",
        test="tests/runtime/supervisor/test_fleet.py::"
        "test_all_survivors_are_told_to_begin_a_generation_at_once_and_then_of_the_replacement_a14",
    ),
    Mutant(
        rule="P9",
        breaks="an owner that a life has taken since is not over with it",
        file="acker/frontier.py",
        old="        over = {owner, *(note.owners if note is not None and owner in note.owners else ())}\n",
        new="        over = {owner}\n",
        test="tests/acker/test_decided.py::test_a_life_is_over_with_all_owners_that_it_has_taken_P9",
    ),
    Mutant(
        rule="D2",
        breaks="outputs of a key's timers are counted with those of its inputs",
        file="topology/runtime/state/keyed_work.py",
        old="held = state.held(0, len(records)) if timer else state.held(len(records))",
        new="held = state.held(len(records), len(records) if timer else 0)",
        test="tests/runtime/state/test_durabilities.py::"
        "test_a_timer_that_fires_at_another_place_the_second_time_leaves_the_names_of_other_outputs_D2",
    ),
    Mutant(
        rule="C3",
        breaks="outputs that are named by their count have the same names in each topology",
        file="topology/runtime/worker/build.py",
        old="self._queue, seed, outbox_kind, topology_id)",
        new="self._queue, seed, outbox_kind)",
        test="tests/runtime/state/test_durabilities.py::test_another_run_id_stores_all_again_C3",
    ),
    Mutant(
        rule="P9",
        breaks="an input whose generation is over is never sent, if it came again before its record was in the log",
        file="topology/runtime/state/state_executor.py",
        old="                    if entry.waiting:\n",
        new="                    if entry.waiting and tup is not None:\n",
        test="tests/runtime/state/test_durabilities.py::"
        "test_an_input_that_comes_again_in_the_next_generation_before_its_record_is_synced_leaves_with_it_P7_P9",
    ),
    Mutant(
        rule="P9",
        breaks="a life that is over is not told from those that go on",
        file="acker/frontier.py",
        old="        self._over |= over\n",
        new="",
        test="tests/acker/test_decided.py::"
        "test_tuples_of_a_life_that_is_over_and_of_what_it_has_lost_are_refused_D5_P9",
    ),
    Mutant(
        rule="P9",
        breaks="a checkpoint that is under way at a death goes on in the next generation",
        file=WORKING,
        old="            self.given_up(self._underway.number)\n\n    def _tell",
        new="            pass\n\n    def _tell",
        test=f"{ENDS}test_a_generation_gives_up_what_is_not_decided_and_not_what_is_P9",
    ),
    Mutant(
        rule="P9",
        breaks="a task that goes back knows inputs on that came after the decided checkpoint",
        file=KNOWING,
        old="        self.now, self.gathered, self.older = {}, {}, self._decided\n",
        new="        self.gathered, self.older = {}, self._decided\n",
        test=f"{KNOWN}test_going_back_all_is_known_that_was_at_the_decided_checkpoint_and_nothing_else_P9",
    ),
    Mutant(
        rule="P9",
        breaks="what a timer has emitted keeps none of its numbers when the run goes back",
        file="topology/runtime/state/timer_outputs.py",
        old="        self._fired.trees[pair] = [*each(entry.messages)]",
        new="        self._fired.trees[pair] = []",
        test="tests/runtime/state/test_timers_gone_back.py::"
        "test_what_a_timer_has_emitted_counts_once_below_though_it_comes_again_after_many_checkpoints_B10_P9",
    ),
    Mutant(
        rule="P9",
        breaks="a letter that a decided checkpoint has is delivered again, as it is not taken in yet",
        file="topology/runtime/dead_letters/letter_store.py",
        old="        self._undecided = {}\n",
        new="",
        test="tests/runtime/dead_letters/test_letters_gone_back.py::"
        "test_a_letter_that_a_decided_checkpoint_has_is_not_delivered_again_though_it_is_not_taken_in_yet_P9",
    ),
    Mutant(
        rule="P10",
        breaks="a dead message is in the checkpoint after that of its letter",
        file="topology/runtime/dead_letters/letter_store.py",
        old="            burial.tree.value = 0  # done",
        new="            pass  # done",
        test=f"{LETTERS}test_letter_and_mark_are_one_commit_and_nobody_is_told_before_it_is_kept_E2",
    ),
    Mutant(
        rule="P11",
        breaks="a source is told to forget what was done after the frontier was noted",
        file="topology/runtime/tasks/done_messages.py",
        old="        done, self._noted = self._noted, []\n",
        new="        done, self._noted, self._now = self._noted + self._now, [], []\n",
        test="tests/runtime/tasks/test_settled.py::test_a_source_is_told_of_what_a_decided_frontier_has_and_of_nothing_else_P11",
    ),
    Mutant(
        rule="P12",
        breaks="a group of the log whose bytes are not as they were written is redone",
        file="topology/storage/log/reading.py",
        old="        if not is_body_of(group, body, seed):",
        new="        if len(body) < length:",
        test=f"{LOG}damage.py::test_a_flipped_byte_is_damage_or_a_torn_tail_and_never_another_record_P12_F22",
    ),
    Mutant(
        rule="P13",
        breaks="a log whose sync has failed is synced again",
        file="topology/storage/log/log.py",
        old="                except OSError as error:\n"
        "                    raise self._break(self._both[index], error) from error\n"
        "            self._synced = position",
        new="                except OSError as error:\n"
        "                    raise StoreBroken(str(error)) from error\n"
        "            self._synced = position",
        test=f"{LOG}appends.py::test_after_a_failed_sync_nothing_is_tried_again_P13_F18",
    ),
    Mutant(
        rule="P14",
        breaks="on a full disk nobody hears that a checkpoint can't be kept",
        file=WORKING,
        old="            if now is self._underway:\n                self.answers.unprepared(now.number, str(error))\n",
        new="",
        test=f"{ENDS}test_on_a_full_disk_the_checkpoint_is_given_up_and_the_next_one_has_all_of_it_P14",
    ),
    Mutant(
        rule="P14",
        breaks="sources are read on while the disk is full",
        file=WORKING,
        old="        except StoreFull as error:\n"
        "            self.room_of_store.checkpoint_full(str(error))\n"
        "            if now is",
        new="        except StoreFull as error:\n            if now is",
        test=f"{ENDS}test_on_a_full_disk_the_checkpoint_is_given_up_and_the_next_one_has_all_of_it_P14",
    ),
    Mutant(
        rule="P14",
        breaks="a log that is full is marked: its snapshot has what the log has not",
        file="topology/runtime/checkpoints/log_commit.py",
        old="            self._take()\n            self._append()\n        self._store.mark",
        new="            self.write()\n        self._store.mark",
        test="tests/runtime/checkpoints/test_log_leaving.py::"
        "test_a_full_log_takes_no_mark_because_its_snapshot_has_what_the_log_has_not_P14",
    ),
    Mutant(
        rule="P14",
        breaks="half of a decision that a full disk has cut short stays",
        file="topology/storage/directory/decision.py",
        old="                self._restore(slot)\n",
        new="",
        test=f"{DECISION}test_of_a_decision_that_a_full_disk_has_cut_short_nothing_stays_P14",
    ),
    Mutant(
        rule="D4",
        breaks="after a going back, a hand-over forgets with the message that had an output the first time",
        file="acker/frontier.py",
        old="            self._waits.append({home: note.newest for home, note in frontier.notes.items()})\n"
        "        if len(self._waits) > ROUNDS:",
        new="            self._waits.append({home: note.newest for home, note in frontier.notes.items()})\n"
        "        if self._waits:",
        test="tests/acker/test_decided.py::test_after_a_going_back_what_was_known_is_kept_until_what_is_open_then_is_done_and_"
        "what_is_open_after_that",
    ),
    Mutant(
        rule="D4",
        breaks="after a going back, a hand-over forgets what the last life of a home had read, before it is read again",
        file="acker/frontier.py",
        old="        if frontier.catches_up:\n            return\n",
        new="",
        test="tests/acker/test_decided.py::test_after_a_going_back_all_that_was_known_is_kept_until_all_homes_have_caught_"
        "up_D4",
    ),
    Mutant(
        rule="D4",
        breaks="a worker whose timers fail after a going back counts as caught up",
        file="topology/runtime/worker/worker.py",
        old="    return any(late) or any(",
        new="    return any(",
        test="tests/runtime/state/test_timers_gone_back.py::"
        "test_a_worker_catches_up_until_its_sources_are_quiet_and_its_timers_have_fired_D4",
    ),
    Mutant(
        rule="D4",
        breaks="a source counts as caught up when it has given as much as may be done and in no checkpoint",
        file="topology/runtime/tasks/spout_task.py",
        old="reread_max=config.max_lag + config.max_pending + SLICE_MAX)",
        new="reread_max=config.max_lag)",
        test="tests/runtime/state/test_timers_gone_back.py::"
        "test_a_source_catches_up_until_it_has_given_as_much_as_an_earlier_life_may_have_read_D4",
    ),
    Mutant(
        rule="D4",
        breaks="what is passed over counts as read again",
        file="topology/runtime/tasks/spout_reader.py",
        old="        reread = self.given - self.passed_over",
        new="        reread = self.given",
        test="tests/runtime/state/test_timers_gone_back.py::test_what_is_passed_over_does_not_count_as_read_again_D4",
    ),
    Mutant(
        rule="D4",
        breaks="a hand-over counts an input as of when its segment is written, which may be after a going back",
        file="bridge/handover/bolt.py",
        old="        self._segments.taken_at = self._taken_at[0]\n",
        new="        self._segments.taken_at = self._task.frontier.gathered\n",
        test="tests/bridge/test_handover_forgetting.py::"
        "test_an_input_that_came_before_a_going_back_counts_as_of_then_though_it_is_written_after_it_D4",
    ),
    Mutant(
        rule="P9",
        breaks="after a going back all is emitted again at once, however much that is",
        file="topology/runtime/tasks/replays.py",
        old=" and len(due) < room:",
        new=":",
        test="tests/runtime/state/test_durabilities.py::"
        "test_after_a_going_back_no_more_than_max_pending_are_under_way_at_once_P9",
    ),
    Mutant(
        rule="P11",
        breaks="the file of a query's results goes when its rows are done, and no decided checkpoint has that",
        file="bridge/handover/results.py",
        old="    def settled(self, ids: Sequence[MessageId], partition: str) -> None:\n",
        new="    def ack(self, id: MessageId) -> None:\n        self.settled([id], "
        ")\n\n"
        "    def settled(self, ids: Sequence[MessageId], partition: str) -> None:\n",
        test="tests/bridge/test_spark_results.py::"
        "test_the_file_of_rows_that_no_decided_checkpoint_has_is_there_for_the_next_run_P11",
    ),
    Mutant(
        rule="D14",
        breaks="known inputs that come again with large outputs are one record of the log, which is too long",
        file="topology/runtime/state/logged_work.py",
        old="        self._records_bytes += size\n",
        new="",
        test="tests/runtime/state/test_logged_bytes.py::"
        "test_known_inputs_that_come_again_with_large_outputs_fit_the_records_of_the_log",
    ),
    Mutant(
        rule="P6",
        breaks="two writes of a store are under way at once if the first one's caller was cancelled",
        file="topology/runtime/checkpoints/store_threads.py",
        old="    return ThreadPoolExecutor(1, thread_name_prefix=name)",
        new="    return ThreadPoolExecutor(2, thread_name_prefix=name)",
        test="tests/runtime/checkpoints/test_store_threads.py::test_a_write_whose_caller_is_cancelled_is_over_before_the_next_"
        "one_begins",
    ),
    Mutant(
        rule="P15",
        breaks="what is done between two runs begins with what each store had decided by itself",
        file="topology/storage/rescale/resolve.py",
        old="            store.resolve(decided)\n",
        new="            store.resolve(store.checkpoint)\n",
        test=f"{RESOLVE}test_all_stores_have_the_decided_checkpoint_and_their_logs_P5_P15",
    ),
    Mutant(
        rule="P2",
        breaks="finished names are forgotten with a mark that is not decided",
        file="acker/marks.py",
        old="        self._passed = {name: None for name in finished if name not in self._unsettled}\n",
        new="        self._passed = {name: None for name in finished if name not in self._unsettled}\n"
        "        for name in self._passed:\n            del self._names[name]\n",
        test="tests/acker/test_marks.py::"
        "test_a_run_that_goes_back_before_a_mark_is_stored_knows_what_an_earlier_run_had_finished_P2",
    ),
    Mutant(
        rule="P2",
        breaks="a name that is open again stands before names that are older and not done",
        file="acker/marks.py",
        old=" and name not in self._names\n        }",
        new="\n        }",
        test="tests/acker/test_marks.py::"
        "test_a_name_that_is_open_again_keeps_its_place_and_forgotten_ones_come_first_P2",
    ),
    Mutant(
        rule="P15",
        breaks="a run that ends before it has loaded its state keeps a checkpoint without that",
        file="topology/runtime/worker/worker.py",
        old="        checkpoints.is_ready = False\n",
        new="",
        test="tests/runtime/state/test_ended_while_opening.py::"
        "test_inputs_in_flight_are_counted_once_after_a_run_whose_open_fails_or_is_cut_short_D2",
        also=(
            Mutant(
                rule="P15",
                breaks="a run that has started nothing takes a last checkpoint",
                file="topology/runtime/embedded/run.py",
                old="        if self._has_started and all(",
                new="        if all(",
                test="",
            ),
        ),
    ),
    Mutant(
        rule="P4",
        breaks="a sub-root that is lost is named by one decided frontier only",
        file="topology/runtime/worker/subtrees.py",
        old="            self._lost -= self._lost_in_one & frontier.lost\n",
        new="            self._lost -= frontier.lost\n",
        test="tests/runtime/worker/test_subtrees_lost.py::test_two_decided_frontiers_name_a_lost_sub_root",
    ),
    Mutant(
        rule="P4",
        breaks="a replacement takes an input of a lost sub-root for one whose message is done",
        file=KNOWING,
        old="each(messages) if not lost or lost.isdisjoint(each(messages)) else ()",
        new="each(messages)",
        test="tests/runtime/worker/test_subtrees_lost.py::"
        "test_a_snapshot_has_inputs_of_a_lost_sub_root_without_their_message",
    ),
    Mutant(
        rule="P7",
        breaks="what a timer has emitted is begun twice if the run goes back before the task starts",
        file="topology/runtime/state/timer_outputs.py",
        old="        if pair in self._entries:\n            return\n",
        new="",
        test="tests/runtime/state/test_timers_gone_back.py::"
        "test_what_a_timer_has_emitted_is_sent_once_though_the_run_goes_back_before_its_task_starts_B10",
    ),
    Mutant(
        rule="P16",
        breaks="what never comes again is remembered without a bound",
        file=KNOWING,
        old="        over = left[: max(0, len(left) - LEFT_MAX)]",
        new="        over = left[:0]",
        test=f"{KNOWN}test_of_what_never_comes_again_the_oldest_goes_at_a_bound_and_is_told_P16",
    ),
    Mutant(
        rule="P16",
        breaks="a checkpoint that is not decided for long does not say what it waits for",
        file=TAKING,
        old="        if present != checkpoint:\n            return\n",
        new="        if present == checkpoint:\n            return\n",
        test=f"{OVERDUE}test_the_worker_and_the_step_that_a_checkpoint_waits_for_are_named",
    ),
)
