"""Mutants of the rules C and D: a sink drops or doubles a record, an input changes its state twice, or half. Data."""

from typing import Final

from tests.mutants.mutant import Mutant

RULES_C_D: Final = "tests/runtime/tasks/test_rules_c_d.py::"
STATE: Final = "tests/runtime/state/test_state.py::"
IDENTITY: Final = "tests/acker/test_identity.py::"
GROUPINGS: Final = "tests/declaring/test_groupings.py::"
INPUTS: Final = "tests/unit/checks/test_validate_inputs.py::"
SINKS: Final = "tests/bolts/test_sink_conformance.py::"
SOURCES: Final = "tests/spouts/test_source_conformance.py::"

MUTANTS: Final = (
    Mutant(
        rule="C1",
        breaks="both halves of a message's pair are one hash of 64 bits",
        file="acker/identity.py",
        old="""    origin, identity = _unpack_pair(xxh3_128_digest(data, seed))
    return origin or 1, identity or 1""",
        new="""    origin, identity = _unpack_pair(xxh3_128_digest(data, seed))
    return identity or 1, identity or 1""",
        test=f"{IDENTITY}test_a_pair_has_128_independent_bits",
    ),
    Mutant(
        rule="C1",
        breaks="what was processed is remembered by its identity alone",
        file="topology/runtime/state/in_memory.py",
        old="known = self.remembered.get((tup.origin, tup.identity)) if tup.root else None",
        new="known = next((v for k, v in self.remembered.items() if k[1] == tup.identity), None)",
        test=f"{RULES_C_D}test_messages_whose_identities_collide_are_told_apart_by_their_origins_C1",
    ),
    Mutant(
        rule="C1",
        breaks="a sink's key leaves the origin out",
        file="bolts/sinks/keys.py",
        old="return _pack(origin, identity, content_hash(content))",
        new="return _pack(identity, identity, content_hash(content))",
        test="tests/bolts/test_sink_rules.py::test_c1_outputs_of_two_messages_whose_identities_collide_are_two_rows",
    ),
    Mutant(
        rule="C2",
        breaks="the epoch is no part of a message's name",
        file="acker/identity.py",
        old="_encode([topology_id, spout, partition, epoch])",
        new="_encode([topology_id, spout, partition])",
        test=f"{RULES_C_D}test_the_same_ids_of_a_new_epoch_are_new_messages_C2",
    ),
    Mutant(
        rule="C2",
        breaks="a new epoch is not noticed while a spout runs",
        file="topology/runtime/tasks/spout_task.py",
        old="        if epochs is not self._epochs:",
        new="        if self._epochs is None:",
        test=f"{RULES_C_D}test_the_same_ids_of_a_new_epoch_are_new_messages_C2",
    ),
    Mutant(
        rule="C2",
        breaks="a file that was recreated is taken for the one before: the inode is enough",
        file="spouts/file_tail/identity.py",
        old="return proven and known.begins(descriptor)",
        new="return known.is_at(status)",
        test=f"{SOURCES}test_recreated_from_zero_no_message_is_taken_for_an_earlier_one",
    ),
    Mutant(
        rule="C2",
        breaks="a file's generation never goes up",
        file="spouts/file_tail/identity.py",
        old="(known.generation + 1 for",
        new="(known.generation for",
        test="tests/spouts/test_file_tail_restarts.py"
        "::test_a_file_with_a_known_banner_and_other_lines_is_a_new_generation",
    ),
    Mutant(
        rule="C2",
        breaks="other items have the epoch of the first ones",
        file="spouts/items.py",
        old="            hasher.update(content)\n",
        new="",
        test="tests/spouts/test_items_and_ticker.py::test_other_items_in_a_second_run_are_not_taken_for_the_first_ones",
    ),
    Mutant(
        rule="C2",
        breaks="ticks are counted from the start of each run",
        file="spouts/ticker.py",
        old="return [Message(Tick(at), due, at=at)]",
        new="return [Message(Tick(at), self._emitted, at=at)]",
        test="tests/spouts/test_items_and_ticker.py::test_after_a_restart_another_tick_has_another_id",
    ),
    Mutant(
        rule="C9",
        breaks="a batch that holds a tuple twice has two rows of it",
        file="bolts/sinks/rows.py",
        old="same = table, table.same(row)",
        new="same: Any = (table, (table.same(row), place))",
        test=f"{SINKS}test_c9_a_batch_that_holds_a_tuple_twice_stores_it_once",
    ),
    Mutant(
        rule="C9",
        breaks="a batch that holds a tuple twice has two lines of it",
        file="bolts/sinks/jsonlines.py",
        old="""            if key in lines or self._known.holds(key):
                written.tally.duplicates += 1
            else:
                lines[key] = b'""",
        new="""            if self._known.holds(key):
                written.tally.duplicates += 1
            else:
                lines[key] = lines.get(key, b"") + b'""",
        test="tests/bolts/test_sink_rules.py::test_c9_a_line_that_is_twice_in_a_batch_is_one_duplicate",
    ),
    Mutant(
        rule="C9",
        breaks="one bad row fails its whole batch",
        file="bolts/sinks/contract.py",
        old="            if len(part) == 1:\n                refuse(part[0], str(error))\n                continue",
        new="            for one in part:\n                refuse(one, str(error))\n            continue",
        test="tests/bolts/test_sqlite_sink.py::test_f46_rows_that_a_constraint_refuses_are_bisected_out",
    ),
    Mutant(
        rule="C9",
        breaks="NaN and the infinities are taken for numbers",
        file="bolts/sinks/values.py",
        old="    if not math.isfinite(value):",
        new="    if value is None:",
        test=f"{SINKS}test_f46_a_bad_value_fails_alone_and_is_named",
    ),
    Mutant(
        rule="C9",
        breaks="a number of more than 64 bits reaches the store",
        file="bolts/sinks/values.py",
        old="    if not INT_MIN <= value <= INT_MAX:",
        new="    if value is None:",
        test=f"{SINKS}test_f46_a_bad_value_fails_alone_and_is_named",
    ),
    Mutant(
        rule="C9",
        breaks="a lone surrogate reaches the store",
        file="bolts/sinks/values.py",
        old="    if not value.isascii():  # a flag",
        new="    if value is None:  # a flag",
        test=f"{SINKS}test_f46_a_bad_value_fails_alone_and_is_named",
    ),
    Mutant(
        rule="C9",
        breaks="tables are not STRICT, and take a text for a number",
        file="bolts/sinks/sqlite/table.py",
        old="({', '.join(declared)}) STRICT\"",
        new="({', '.join(declared)})\"",
        test="tests/bolts/test_sqlite_tables.py::test_a_table_is_made_from_the_records_fields_and_is_strict",
    ),
    Mutant(
        rule="C9",
        breaks='a text is stored as a number, where that is possible: "007" as 7',
        file="bolts/sinks/sqlite/table.py",
        old='    str: ("TEXT", values.text),',
        new='    str: ("ANY", lambda value: int(value) if value.isdigit() else value),',
        test=f"{SINKS}test_c9_a_value_comes_back_as_it_was",
    ),
    Mutant(
        rule="D3",
        breaks="a replay is processed once more",
        file="topology/runtime/state/in_memory.py",
        old="            if known is not None:\n                records, filed",
        new="            if known is not None and not tup.root:\n                records, filed",
        test=f"{STATE}test_a_replay_does_not_count_twice_B4_D3",
    ),
    Mutant(
        rule="D3",
        breaks="inputs of one key are processed side by side",
        file="topology/runtime/state/in_memory.py",
        old="            if key in self.busy:\n                self.park(key, tup)",
        new="            if key in self.busy and not self.busy:\n                self.park(key, tup)",
        test=f"{STATE}test_one_input_of_a_key_is_under_way_at_a_time_whatever_the_concurrency_D3",
    ),
    Mutant(
        rule="D3",
        breaks="a second attempt does not wait for the first, which is still in process",
        file="topology/runtime/state/in_memory.py",
        old="            if key in self.busy:\n                self.park(key, tup)",
        new="            if key in self.busy and not tup.root & 63:\n                self.park(key, tup)",
        test=f"{RULES_C_D}test_a_second_attempt_waits_for_the_first_and_takes_its_outputs_D3",
    ),
    Mutant(
        rule="D3",
        breaks="inputs that waited for their key are taken in the reverse order",
        file="topology/runtime/state/keyed_executor.py",
        old="            self.begin(waiting.popleft())",
        new="            self.begin(waiting.pop())",
        test=f"{STATE}test_inputs_of_one_key_are_taken_in_their_order_also_when_they_had_to_wait",
    ),
    Mutant(
        rule="D3",
        breaks="what was processed is forgotten while its message waits for a replay",
        file="topology/runtime/worker/housekeeping.py",
        old="*(tree for task in worker.spout_tasks.values() for tree in task.later())",
        new="",
        test=f"{STATE}test_what_belongs_to_a_message_that_waits_for_its_replay_is_remembered_D4",
    ),
    Mutant(
        rule="D8",
        breaks="a bolt with state may read by shuffle()",
        file="topology/checks/inputs.py",
        old='    if bolt.shape == "state" and not isinstance(grouping, KEYED):',
        new='    if bolt.shape == "state" and not isinstance(grouping, (*KEYED, Shuffle)):',
        test=f"{INPUTS}test_state_behind_a_grouping_that_is_no_key_is_refused_D8",
    ),
    Mutant(
        rule="D8",
        breaks="inputs of one state need not agree on the types of its key",
        file="topology/checks/inputs.py",
        old="        elif [key_parts(kind) for kind in types] != [key_parts(kind) for kind in expected]:",
        new="        elif not types:",
        test=f"{INPUTS}test_the_inputs_of_a_state_agree_in_number_and_types_of_key_fields_D8",
    ),
    Mutant(
        rule="D8",
        breaks="inputs of one state need not agree on the number of its key's fields",
        file="topology/checks/inputs.py",
        old="        if len(types) != len(expected):",
        new="        if len(types) != len(expected) and not types and not expected:",
        test=f"{INPUTS}test_the_inputs_of_a_state_agree_in_number_and_types_of_key_fields_D8",
    ),
    Mutant(
        rule="D8",
        breaks="True and 1 are one key",
        file="topology/groupings.py",
        old='return b"\\x06\\x01" if value else b"\\x06\\x00"',
        new="return id_bytes(int(value))",
        test=f"{GROUPINGS}test_1_and_1_0_and_True_and_the_texts_are_different_keys_D8",
    ),
    Mutant(
        rule="D8",
        breaks="-0.0 and 0.0 are two keys",
        file="topology/groupings.py",
        old="_pack_double(value + 0.0)",
        new="_pack_double(value)",
        test=f"{GROUPINGS}test_equal_values_of_one_type_are_one_key_D8",
    ),
    Mutant(
        rule="D8",
        breaks="NaN can be a key, and never meets its state again",
        file="topology/groupings.py",
        old="        if math.isnan(value):",
        new="        if value is None:",
        test=f"{GROUPINGS}test_nan_is_refused_as_a_key_wherever_it_stands_D8",
    ),
    Mutant(
        rule="D9",
        breaks="a state changes at once, although its input may yet fail",
        file="topology/runtime/state/in_memory.py",
        old="        self._value = value\n        self._changed = True\n",
        new="        self._value = value\n        self._changed = True\n        self.merge()\n",
        test=f"{STATE}test_an_input_that_raises_after_set_leaves_the_state_unchanged_D9",
    ),
    Mutant(
        rule="D9",
        breaks="a state is forgotten at once, although its input may yet fail",
        file="topology/runtime/state/in_memory.py",
        old="        self._value = None\n        self._changed = True\n",
        new="        self._value = None\n        self._changed = True\n        self.merge()\n",
        test=f"{STATE}test_clear_forgets_a_key_and_a_failed_clear_does_not_D9",
    ),
    Mutant(
        rule="D9",
        breaks="a state changes although its input's outputs can't leave",
        file="topology/runtime/state/in_memory.py",
        old="        sent = self.outbox.emit(records, tup) if records else 0\n        state.merge()",
        new="        state.merge()\n        sent = self.outbox.emit(records, tup) if records else 0",
        test=f"{STATE}test_an_input_whose_output_can_not_leave_leaves_the_state_unchanged_D9",
    ),
    Mutant(
        rule="D9",
        breaks="a state's value may be mutable, and be changed in place",
        file="topology/runtime/state/value.py",
        old="        hash(value)  # what is",
        new="        value  # what is",
        test=f"{STATE}test_a_mutable_value_is_refused_and_the_state_stays_D9",
    ),
)
