"""Mutants of the rules A: a tree completes early, never, or fails although nothing is wrong with it. Data."""

from typing import Final

from tests.mutants.mutant import Mutant

ANCHORS: Final = "tests/runtime/test_anchors.py::"
STATES: Final = "tests/runtime/test_tuple_states.py::"
DEADLINES: Final = "tests/runtime/test_deadlines.py::"
LEDGER: Final = "tests/unit/test_ledger.py::"
RULES_A: Final = "tests/runtime/test_rules_a.py::"
ROOTS: Final = "tests/unit/test_roots.py::"

MUTANTS: Final = (
    Mutant(
        rule="A1",
        breaks="an emission with two anchors is registered with both in the root that they share",
        file="acker/anchoring.py",
        old="for root in values.keys() - seen if seen else values:",
        new="for root in values:",
        test=f"{ANCHORS}test_a_tree_is_not_complete_while_what_a_join_has_emitted_is_under_way_A1",
    ),
    Mutant(
        rule="A1",
        breaks="an emission is registered in the roots of its first anchor alone",
        file="acker/anchoring.py",
        old="            values[root] ^= edge\n        seen.update(values)",
        new="            values[root] ^= edge\n        return",
        test=f"{ANCHORS}test_a_tuple_of_two_trees_completes_both_only_when_it_is_done_B7",
    ),
    Mutant(
        rule="A1",
        breaks="a join's result is sent with the root of its first anchor alone",
        file="topology/runtime/collecting.py",
        old="(roots[0], roots[1:]) if roots else (0, ())",
        new="(roots[0], ()) if roots else (0, ())",
        test=f"{ANCHORS}test_a_tuple_of_two_trees_completes_both_only_when_it_is_done_B7",
    ),
    Mutant(
        rule="A2",
        breaks="an anchor given twice counts twice",
        file="acker/anchoring.py",
        old="return tuple({id(anchor): anchor for anchor in anchors}.values())",
        new="return tuple(anchors)",
        test=f"{RULES_A}test_an_anchor_given_twice_gives_the_identity_of_one_A2",
    ),
    Mutant(
        rule="A3",
        breaks="emitting for a tuple that was acked goes through",
        file="topology/runtime/collecting.py",
        old='            if one.finished:\n                executor.open_of(one.tup, "emit on")',
        new="            one.finished = False",
        test=f"{STATES}test_emitting_from_a_background_task_after_the_ack_raises_A3",
    ),
    Mutant(
        rule="A3",
        breaks="a finished anchor is passed over in silence",
        file="topology/runtime/collecting.py",
        old='opens = tuple(executor.open_of(anchor, "emit on") for anchor in distinct(anchors))',
        new="opens = tuple(one for a in distinct(anchors) if (one := executor.opened.get(id(a))))  # type: ignore",
        test=f"{STATES}test_an_anchor_of_another_bolt_or_a_finished_one_is_refused_A3",
    ),
    Mutant(
        rule="A4",
        breaks="a tuple stays open after its ack, and can be acked again",
        file="topology/runtime/collecting.py",
        old="        one = self.opened.pop(id(tup))\n        one.finished = True",
        new="        one = self.opened[id(tup)]",
        test=f"{STATES}test_acting_on_a_finished_tuple_raises_and_is_counted_A3_A4",
    ),
    Mutant(
        rule="A5",
        breaks="what the drain cut off counts as done when it returns",
        file="topology/runtime/executor.py",
        old="            self.fail_input(tup, None, Reason.CUT_OFF)\n",
        new="            self.ack_input(tup, 0)\n",
        test=f"{STATES}test_a_swallowed_cancellation_at_the_end_of_a_drain_is_a_failure_A5_F10",
    ),
    Mutant(
        rule="A5",
        breaks="what is over its time limit counts as done",
        file="topology/runtime/executor.py",
        old='self.fail_input(tup, None, Reason.TIME_LIMIT, f"not done after {self.time_limit_s:g} s")',
        new="self.ack_input(tup, 0)",
        test=f"{STATES}test_a_swallowed_cancellation_at_the_time_limit_is_a_failure_A5_F9",
    ),
    Mutant(
        rule="A5",
        breaks="a coroutine that swallowed its cancellation counts as successful",
        file="topology/runtime/executor.py",
        old="if task.cancelled() or task.cancelling():",
        new="if task.cancelled():",
        test=f"{STATES}test_a_bolt_that_cancels_its_own_task_fails_its_input_A5",
    ),
    Mutant(
        rule="A5",
        breaks="a coroutine that a plain `process` returned is dropped, and its input acked",
        file="topology/runtime/executor.py",
        old="""                        if waits(outputs):
                            self.begin_waiting(tup, outputs)
                            if len(self.under_way) >= self.concurrency:
                                break
                            continue
""",
        new="""                        if waits(outputs):
                            outputs.close()
                            outputs = ()
""",
        test=f"{STATES}test_a_coroutine_returned_by_a_sync_process_is_awaited_A5",
    ),
    Mutant(
        rule="A6",
        breaks="outputs of `process` leave before it has returned",
        file="topology/runtime/executor.py",
        old="                            outputs = [first, second, *collected(outputs)]",
        new="                            emit([first, second], tup)\n"
        "                            outputs = collected(outputs)",
        test=f"{STATES}test_outputs_of_a_failed_input_never_leave_A6",
    ),
    Mutant(
        rule="A6",
        breaks="deliveries leave one by one while the targets of the others are still being chosen",
        file="topology/runtime/outbox.py",
        old="staged.append((route.queues[target], Tuple(record, origin, own, root, others, source)))",
        new="route.queues[target].append(Tuple(record, origin, own, root, others, source))",
        test=f"{STATES}test_a_custom_grouping_that_raises_lets_nothing_leave_A6",
    ),
    Mutant(
        rule="A7",
        breaks="a replay has the root of the attempt before",
        file="acker/roots.py",
        old="        return root + 1",
        new="        return root",
        test=f"{RULES_A}test_a_late_ack_of_an_earlier_attempt_does_not_complete_the_next_one_A7",
    ),
    Mutant(
        rule="A7",
        breaks="the 65th attempt runs into the next message's number",
        file="acker/roots.py",
        old="if attempt_of(root) == ATTEMPTS - 1:",
        new="if attempt_of(root) == ATTEMPTS:",
        test=f"{ROOTS}test_spent_attempts_take_a_new_number",
    ),
    Mutant(
        rule="A7",
        breaks="spent message numbers begin again within the same incarnation",
        file="acker/roots.py",
        old="            self.owner = owner(self.worker, self._renew())\n",
        new="",
        test=f"{ROOTS}test_spent_numbers_renew_the_incarnation",
    ),
    Mutant(
        rule="A7",
        breaks="the incarnation is counted in memory alone",
        file="topology/runtime/statedir.py",
        old='        self._state["incarnation"] += 1\n        self._store()',
        new='        self._state["incarnation"] += 1',
        test=f"{RULES_A}test_each_run_over_a_state_directory_has_an_incarnation_of_its_own_A7",
    ),
    Mutant(
        rule="A7",
        breaks="a root that is open already can be begun",
        file="acker/ledger.py",
        old="        previous = self._young.setdefault(root, tree)\n"
        '        assert previous is tree, "a root is begun once"',
        new="        self._young[root] = tree",
        test=f"{LEDGER}test_a_root_can_not_be_begun_twice_while_it_is_open",
    ),
    Mutant(
        rule="A7",
        breaks="a root that is open already can be begun together with new ones",
        file="acker/ledger.py",
        old='        assert len(young) == count + len(trees), "a root is begun once"\n',
        new="",
        test=f"{LEDGER}test_trees_begun_together_must_be_new_too",
    ),
    Mutant(
        rule="A8",
        breaks="an ack is no progress: a tree that is worked on expires",
        file="acker/ledger.py",
        old="            self._young[root] = tree\n        left = tree.value ^ value",
        new="            self._old[root] = tree\n        left = tree.value ^ value",
        test=f"{LEDGER}test_a_tree_that_makes_progress_never_expires",
    ),
    Mutant(
        rule="A8",
        breaks="young trees expire together with the old ones",
        file="acker/ledger.py",
        old="        expired = list(self._old.values())\n        self._old, self._young = self._young, {}",
        new="        expired = self.trees()\n        self._old, self._young = {}, {}",
        test=f"{DEADLINES}test_a_tuple_that_was_lost_is_replayed_after_one_to_two_timeouts_A8",
    ),
    Mutant(
        rule="A8",
        breaks="a silent tree is given another whole timeout",
        file="acker/ledger.py",
        old="        self._due = now + self.timeout_s\n        return expired",
        new="        self._due = now + 2 * self.timeout_s\n        return expired",
        test=f"{DEADLINES}test_a_tuple_that_was_lost_is_replayed_after_one_to_two_timeouts_A8",
    ),
    Mutant(
        rule="A9",
        breaks="what waits in a queue is not touched",
        file="topology/runtime/executor.py",
        old="for root in seen & self._last_seen:",
        new="for root in seen - seen:",
        test=f"{DEADLINES}test_tuples_that_wait_in_a_queue_for_five_timeouts_do_not_time_out_A9",
    ),
    Mutant(
        rule="A9",
        breaks="a touch is no progress",
        file="acker/ledger.py",
        old="        self._young[root] = self._old.pop(root)\n",
        new="",
        test=f"{LEDGER}test_a_touched_tree_does_not_expire",
    ),
    Mutant(
        rule="A9",
        breaks="deadlines go on while a spout is paused",
        file="topology/runtime/clockwork.py",
        old="            worker.ledger.shift(now - last)",
        new="            pass",
        test=f"{RULES_A}test_deadlines_stop_while_a_spout_is_paused_A9",
    ),
    Mutant(
        rule="A9",
        breaks="touches save a tree for ever, without any ack",
        file="acker/ledger.py",
        old="        if count >= self.hard_cap:\n            return\n",
        new="",
        test=f"{DEADLINES}test_a_tuple_that_was_held_and_forgotten_fails_by_the_hard_cap_naming_its_holder_A13",
    ),
    Mutant(
        rule="A9",
        breaks="the hard cap counts from the first touch, whatever was acked since",
        file="acker/ledger.py",
        old="        if value != tree.value:\n            count = 0  # there was an ack since\n",
        new="",
        test=f"{RULES_A}test_touches_are_counted_anew_after_an_ack_A9",
    ),
    Mutant(
        rule="A10",
        breaks="time in which the loop stood still is silence",
        file="acker/ledger.py",
        old="            self._due += gap\n",
        new="",
        test=f"{RULES_A}test_a_tree_that_was_silent_before_a_stall_has_its_time_left_after_it_A10",
    ),
    Mutant(
        rule="A10",
        breaks="time in which the loop stood still counts for an input's time limit",
        file="topology/runtime/clockwork.py",
        old="                executor.shift(stood_still)",
        new="                pass",
        test=f"{DEADLINES}test_a_clock_that_jumps_fails_nothing_A10_F5",
    ),
    Mutant(
        rule="A10",
        breaks="time in which the loop stood still is taken off twice",
        file="topology/runtime/clockwork.py",
        old="                executor.shift(stood_still)",
        new="                executor.shift(2 * stood_still)",
        test=f"{RULES_A}test_a_time_limit_is_longer_by_just_the_time_that_the_loop_stood_still_A10",
    ),
    Mutant(
        rule="A13",
        breaks="nobody says who held the tuple that was forgotten",
        file="topology/runtime/clockwork.py",
        old="            if holder is not None:",
        new="            if holder is None:",
        test=f"{DEADLINES}test_a_tuple_that_was_held_and_forgotten_fails_by_the_hard_cap_naming_its_holder_A13",
    ),
    Mutant(
        rule="A13",
        breaks="a tuple that was held and forgotten is touched for ever",
        file="acker/ledger.py",
        old="if count >= self.hard_cap:",
        new="if count >= 1_000_000:",
        test=f"{DEADLINES}test_a_tuple_that_was_held_and_forgotten_fails_by_the_hard_cap_naming_its_holder_A13",
    ),
    Mutant(
        rule="A17",
        breaks="an emission without anchors is anchored to the input",
        file="topology/runtime/collecting.py",
        old="        if anchors is None:",
        new="        if not anchors:",
        test=f"{ANCHORS}test_what_is_emitted_without_an_anchor_neither_delays_nor_numbers_anything_A17",
    ),
    Mutant(
        rule="A17",
        breaks="an emission without anchors counts among the anchored ones",
        file="topology/runtime/collecting.py",
        old="            executor.emit_unanchored([record], task)\n",
        new="            executor.emit_unanchored([record], task)\n"
        "            one = self._current\n"
        "            name = (type(record), frozenset([one.tup.identity]))\n"
        "            one.ordinals[name] = one.ordinals.get(name, 0) + 1\n",
        test=f"{ANCHORS}test_what_is_emitted_without_an_anchor_neither_delays_nor_numbers_anything_A17",
    ),
    Mutant(
        rule="A17",
        breaks="tuples without anchors share one identity",
        file="topology/runtime/executor.py",
        old="self.random.getrandbits(64) or 1, self.random.getrandbits(64) or 1",
        new="1, 1",
        test=f"{ANCHORS}test_what_is_emitted_without_an_anchor_neither_delays_nor_numbers_anything_A17",
    ),
    Mutant(
        rule="A18",
        breaks="the copies of a broadcast have one identity, and what they lead to cancels",
        file="topology/runtime/outbox.py",
        old="own = copy_of(identity, copy) if copy else identity",
        new="own = identity",
        test=f"{ANCHORS}test_each_task_of_a_broadcast_may_emit_and_the_tree_waits_for_all_A18",
    ),
    Mutant(
        rule="A18",
        breaks="two subscriptions of one stream have one edge",
        file="topology/plan.py",
        old="return edge_tag(self.index)",
        new="return 0",
        test=f"{RULES_A}test_two_readers_of_one_stream_do_not_cancel_each_other_A18",
    ),
    Mutant(
        rule="A18",
        breaks="a key may be emitted twice for one input",
        file="topology/runtime/collecting.py",
        old="        if (name, key) in holder.keys:",
        new="        if None in holder.keys:",
        test=f"{ANCHORS}test_a_key_repeated_for_one_input_raises_and_fails_that_input_A18",
    ),
)
