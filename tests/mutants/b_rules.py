"""Mutants of the rules B: identities collide, or differ between two attempts. Data."""

from typing import Final

from tests.mutants.mutant import Mutant

ANCHORS: Final = "tests/runtime/tasks/test_anchors.py::"
STATE: Final = "tests/runtime/state/test_state.py::"
RULES_B: Final = "tests/runtime/tasks/test_rules_b.py::"
SHORT_WAY: Final = "tests/runtime/tasks/test_short_way.py::"
IDENTITY: Final = "tests/acker/test_identity.py::"
SINKS: Final = "tests/bolts/test_sink_conformance.py::"

MUTANTS: Final = (
    Mutant(
        rule="B1",
        breaks="an emission's identity depends on how many read it",
        file="topology/runtime/tasks/outbox.py",
        old="identity = derive(tup.identity, self.outlet(record).salt + k)",
        new="identity = derive(tup.identity, self.outlet(record).salt + len(staged))",
        test=f"{RULES_B}test_how_many_read_a_stream_changes_no_identity_of_its_emissions_B1",
    ),
    Mutant(
        rule="B1",
        breaks="emissions are numbered over all streams together",
        file="topology/runtime/tasks/outbox.py",
        old="            ordinals[cls] = k + 1\n",
        new="            ordinals = dict.fromkeys(self._outlets, k + 1)\n",
        test=f"{RULES_B}test_records_of_another_stream_in_between_change_no_identity_B1",
    ),
    Mutant(
        rule="B1",
        breaks="two components that emit for one input give the same identities",
        file="topology/runtime/tasks/outbox.py",
        old="self.salt = salt(known_as, cls.__name__)",
        new='self.salt = salt("", cls.__name__)',
        test=f"{RULES_B}test_two_components_that_emit_for_one_input_have_identities_of_their_own_B1",
    ),
    Mutant(
        rule="B1",
        breaks="edges are mixed linearly, so that two records to two readers cancel",
        file="acker/identity.py",
        old="return derive(identity, tag) if tag else identity",
        new="return identity ^ tag",
        test=f"{IDENTITY}test_records_broadcast_to_the_same_tasks_do_not_cancel",
    ),
    Mutant(
        rule="B1",
        breaks="on the short way all emissions for one input have one identity",
        file="topology/runtime/hot/hot_path.py",
        old="        seed += 1\n",
        new="",
        test=f"{SHORT_WAY}test_identities_are_the_same_by_both_ways_B1",
    ),
    Mutant(
        rule="B2",
        breaks="bolts are not deterministic unless they say so",
        file="topology/components.py",
        old="deterministic: ClassVar[bool] = True",
        new="deterministic: ClassVar[bool] = False",
        test="tests/declaring/test_plan.py::test_shuffles_before_a_bolt_that_is_not_deterministic_go_by_identity_B2",
    ),
    Mutant(
        rule="B2",
        breaks="the inputs of a bolt that is not deterministic are shuffled",
        file="topology/plan.py",
        old="grouping = ByIdentity()  # so that",
        new="pass  # so that",
        test=f"{RULES_B}test_a_replay_meets_the_task_of_a_non_deterministic_bolt_that_did_the_work_before_B2",
    ),
    Mutant(
        rule="B2",
        breaks="a bolt that is not deterministic may read by any grouping",
        file="topology/checks/inputs.py",
        old='getattr(bolt.prototype, "deterministic", True) is False',
        new='getattr(bolt.prototype, "deterministic", True) is None',
        test="tests/unit/checks/test_validate_inputs.py"
        "::test_a_bolt_that_is_not_deterministic_reads_by_what_a_replay_meets_again_B2",
    ),
    Mutant(
        rule="B2",
        breaks="a key does not name its emission: the ordinal does",
        file="topology/runtime/tasks/collector.py",
        old="self._by_ordinal(record, holder, name) if key is None else self._by_key(record, holder, name, key)",
        new="self._by_ordinal(record, holder, name)",
        test=f"{ANCHORS}test_keys_name_emissions_whatever_their_order_B2",
    ),
    Mutant(
        rule="B2",
        breaks="a sink's key says nothing of the content",
        file="bolts/sinks/keys.py",
        old="    numbers[2::3] = map(content_hash, contents)\n",
        new="",
        test=f"{SINKS}test_b2_another_content_under_one_identity_is_stored_counted_and_named",
    ),
    Mutant(
        rule="B2",
        breaks="another content under a known identity is not counted",
        file="bolts/sinks/sqlite/writer.py",
        old="    pairs = {key[:PAIR_BYTES] for key in known}",
        new="    pairs: set[bytes] = set()",
        test=f"{SINKS}test_b2_another_content_under_one_identity_is_stored_counted_and_named",
    ),
    Mutant(
        rule="B2",
        breaks="the test kit lets pass what a replay gives another content",
        file="topology/testing/run_topology.py",
        old="isinstance(declared.prototype, Captured) and declared.prototype.divergent:",
        new="isinstance(declared.prototype, Captured) and not declared.prototype.tuples:",
        test=f"{RULES_B}test_the_kit_finds_a_bolt_that_gives_a_replay_something_else_B2",
    ),
    Mutant(
        rule="B3",
        breaks="several asyncio tasks may emit for one input without keys",
        file="topology/runtime/tasks/collector.py",
        old="            elif holder.task is not running:",
        new="            elif running is None:",
        test=f"{ANCHORS}test_several_asyncio_tasks_that_emit_for_one_input_without_a_key_raise_B3",
    ),
    Mutant(
        rule="B4",
        breaks="the example keeps its failures in an attribute, where a replay counts again",
        file="examples/ssh_alerts.py",
        old="""class DetectBruteForce(CountWithin[Failure, BruteForce]):
""",
        new="""class DetectBruteForce(Bolt):
    def __init__(self, limit, within_s):
        self.limit, self.within_s, self.kept = limit, within_s, {}

    def process(self, failure: Failure) -> Iterator[BruteForce]:
        from bolts import windows
        window, time = self.kept.get(failure.source_ip, windows.EMPTY), int(failure.at.timestamp())
        window, raised = windows.counted(window, time, failure.count, self.limit, self.within_s)
        self.kept[failure.source_ip] = window
        if raised:
            first, last = (datetime.fromtimestamp(at, failure.at.tzinfo) for at in (raised.first, raised.last))
            yield self.raised(failure, Burst(raised.total, first, last))

""",
        test="tests/examples/test_ssh_alerts.py::test_b4_alerts_are_exact_although_every_failure_is_replayed",
    ),
    Mutant(
        rule="B4",
        breaks="`check_replays` replays nothing",
        file="topology/testing/run_topology.py",
        old="run_topology(make(again), seed=seed, replay_all=True)",
        new="run_topology(make(again), seed=seed)",
        test=f"{STATE}test_the_kit_finds_a_bolt_whose_attribute_counts_replays_B4",
    ),
    Mutant(
        rule="B4",
        breaks="`kedge check` does not warn of a container that each record changes",
        file="topology/checks/instance_state.py",
        old="            self.changed.add(name)\n            if function.attr in ASKS_TOO:",
        new="            if function.attr in ASKS_TOO:",
        test="tests/unit/checks/test_instance_state.py"
        "::test_attributes_that_a_record_changes_and_the_output_reads_are_warned_of_B4",
    ),
    Mutant(
        rule="B6",
        breaks="the test kit runs everything in one order, whatever the seed",
        file="topology/testing/virtual_time/loop.py",
        old="            self._shuffle(self._random)",
        new="            pass",
        test=f"{RULES_B}test_the_kit_shuffles_what_the_runtime_does_not_order_and_the_same_seed_alike_B6",
    ),
    Mutant(
        rule="B6",
        breaks="an executor takes the newest of its queue first",
        file="topology/runtime/hot/hot_path.py",
        old="popleft, home = executor.queue.popleft,",
        new="popleft, home = executor.queue.pop,",
        test=f"{RULES_B}test_tuples_from_one_task_to_one_task_arrive_in_order_B6",
    ),
    Mutant(
        rule="B6",
        breaks="the outputs of one input leave in the reverse order",
        file="topology/runtime/tasks/outbox.py",
        old="        for queue, tup in staged:",
        new="        for queue, tup in reversed(staged):",
        test=f"{RULES_B}test_tuples_from_one_task_to_one_task_arrive_in_order_B6",
    ),
    Mutant(
        rule="B6",
        breaks="records of a key are taken to come sorted by time",
        file="bolts/burst_window.py",
        old="place = bisect_left(events, (at,), from_here)",
        new="place = len(events)",
        test="tests/examples/test_ssh_rule.py::test_an_alert_is_raised_when_the_count_of_a_minute_comes_to_five",
    ),
    Mutant(
        rule="B7",
        breaks="the identity of a join's result depends on the order of its anchors",
        file="acker/identity.py",
        old='return sum(xxh3_64_intdigest(value.to_bytes(8, "little")) for value in values) & MASK or 1',
        new='return xxh3_64_intdigest(b"".join(value.to_bytes(8, "little") for value in values)) or 1',
        test=f"{ANCHORS}test_the_identity_of_a_join_result_does_not_depend_on_which_side_came_first_B7",
    ),
    Mutant(
        rule="B7",
        breaks="a join's result has the origin of the side that came last",
        file="topology/runtime/tasks/collector.py",
        old="origin = common_origin(held.tup.origin for held in opens)",
        new="origin = opens[0].tup.origin",
        test=f"{ANCHORS}test_the_identity_of_a_join_result_does_not_depend_on_which_side_came_first_B7",
    ),
    Mutant(
        rule="E1",
        breaks="what is joined of one message has an origin of its own",
        file="topology/runtime/tasks/collector.py",
        old="origin = common_origin(held.tup.origin for held in opens)",
        new="origin = mixed(held.tup.origin for held in opens)",
        test=f"{ANCHORS}test_what_is_joined_of_one_message_has_the_origin_of_that_message_E1",
    ),
    Mutant(
        rule="B7",
        breaks="how manyth a result is counts with the side that came last",
        file="topology/runtime/tasks/collector.py",
        old="        holder = min(opens, key=lambda one: one.tup.identity)",
        new="        holder = opens[0]",
        test=f"{RULES_B}test_several_results_of_one_pair_have_the_same_identities_in_any_order_of_anchors_B7",
    ),
    Mutant(
        rule="B7",
        breaks="emissions with different anchors are numbered together: which one comes first changes the other",
        file="topology/runtime/tasks/collector.py",
        old="        name = (type(record), frozenset(held.tup.identity for held in opens))",
        new="        name = (type(record), frozenset[int]())",
        test=f"{RULES_B}test_results_of_a_pair_are_numbered_apart_from_those_of_each_side_whichever_comes_first_B7",
    ),
    Mutant(
        rule="B8",
        breaks="an identity depends on the task that a tuple goes to",
        file="topology/runtime/tasks/outbox.py",
        old="own = copy_of(identity, copy) if copy else identity",
        new="own = copy_of(identity, target)",
        test=f"{RULES_B}test_whichever_task_a_tuple_goes_to_its_identity_stays_B8",
    ),
    Mutant(
        rule="B12",
        breaks="a text and the bytes that it is written in are one id",
        file="acker/identity.py",
        old='_BYTES: Final = b"\\x04"',
        new='_BYTES: Final = b"\\x03"',
        test=f"{IDENTITY}test_two_message_ids_never_have_the_same_bytes",
    ),
    Mutant(
        rule="B12",
        breaks="True and 1 are one id",
        file="acker/identity.py",
        old="    kind = type(message_id)\n    if kind is int:",
        new="    kind = type(message_id)\n    if isinstance(message_id, int):",
        test=f"{IDENTITY}test_what_only_resembles_a_message_id_is_refused_by_name",
    ),
    Mutant(
        rule="B12",
        breaks="the parts of a message's name run into one another",
        file="acker/identity.py",
        old="_encode([topology_id, spout, partition, epoch])",
        new="(topology_id + spout + partition + epoch).encode()",
        test=f"{IDENTITY}test_a_part_of_the_seed_never_runs_into_the_next",
    ),
    Mutant(
        rule="B12",
        breaks="a file is named by its inode, not by its content",
        file="spouts/file_tail/identity.py",
        old="            partition = xxh3_128_hexdigest(head)",
        new="            partition = str(status.st_ino)",
        test="tests/spouts/test_file_tail_restarts.py::test_the_path_is_no_part_of_an_identity",
    ),
    Mutant(
        rule="B13",
        breaks="a record's field may be a list",
        file="topology/records.py",
        old="(origin in (tuple, frozenset) and args)",
        new="(origin in (tuple, frozenset, list) and args)",
        test="tests/declaring/test_records.py::test_a_field_type_that_can_not_travel_is_named_with_what_to_write_instead",
    ),
    Mutant(
        rule="B13",
        breaks="a record's fields can be set",
        file="topology/records.py",
        old="class Record(msgspec.Struct, frozen=True,",
        new="class Record(msgspec.Struct, frozen=False,",
        test="tests/declaring/test_records.py::test_a_records_fields_can_not_be_set",
    ),
    Mutant(
        rule="B13",
        breaks="the test kit hands records over as they are",
        file="topology/runtime/tasks/checked_outbox.py",
        old="            staged[index] = queue, tup.carrying(copied)",
        new="            pass",
        test=f"{RULES_B}test_the_kit_gives_each_task_a_record_of_its_own_from_its_bytes_B13",
    ),
    Mutant(
        rule="B13",
        breaks="the test kit lets pass a value that comes back as another",
        file="topology/exact_types.py",
        old="    if not _same(record, made[0]):",
        new="    if not made:",
        test=f"{RULES_B}test_the_kit_refuses_a_value_that_its_bytes_do_not_keep_naming_the_emitter_B13",
    ),
)
