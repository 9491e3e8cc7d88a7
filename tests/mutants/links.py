"""Mutants of the rules that links between workers keep: nothing is lost without notice, repeated, or read of the dead.
Data."""

from typing import Final

from tests.mutants.mutant import Mutant

SESSIONS: Final = "tests/conformance/test_sessions.py::"
LINKS: Final = "tests/conformance/test_links.py::"
WORKERS: Final = "tests/conformance/test_workers.py::"
GENERATIONS: Final = "tests/conformance/test_generations.py::"
WIRE: Final = "tests/unit/runtime/test_wire_failures.py::"

MUTANTS: Final = (
    Mutant(
        rule="A9",
        breaks="a queue that is full again as it has drained never says that it has drained",
        file="topology/runtime/links/peers.py",
        old="            self._wait_until_drained(executor)\n        else:",
        new="            pass\n        else:",
        test=f"{LINKS}test_a_queue_that_is_full_again_as_it_has_drained_is_told_to_have_drained_later_a9",
    ),
    Mutant(
        rule="A11",
        breaks="a repeated frame is read again",
        file="topology/runtime/links/protocol.py",
        old="        if frame.number < self._expected or frame.number in self._early:",
        new="        if frame.number in self._early:",
        test=f"{SESSIONS}test_a_repeated_frame_is_dropped_and_counted",
    ),
    Mutant(
        rule="A11",
        breaks="a frame that never comes is waited for for ever",
        file="topology/runtime/links/protocol.py",
        old="bool(self._early) and now - self._since >= EARLY_S",
        new="False",
        test=f"{LINKS}test_a_frame_that_never_comes_is_told_with_its_senders_owner_once_a11",
    ),
    Mutant(
        rule="A11",
        breaks="a lost frame fails no tree",
        file="topology/runtime/embedded/run.py",
        old="            worker.begin_generation(self._generation, why, lambda left: None)",
        new="            pass",
        test=f"{WORKERS}test_a_lost_last_frame_is_noticed_long_before_the_timeout",
    ),
    Mutant(
        rule="A12",
        breaks="a record that can't be read fails all trees of its group",
        file="topology/runtime/links/codec.py",
        old="            return _readable(group.records, tuples, reading, failed)",
        new="            return _readable(b'', tuples, reading, failed)",
        test=f"{WIRE}test_a_record_that_cant_be_decoded_fails_its_own_trees_and_its_neighbours_go_A12_F35",
    ),
    Mutant(
        rule="A14",
        breaks="what waited for a worker that is gone goes to its successor",
        file="topology/runtime/links/peer.py",
        old="        self._end_receiving()\n        self._clear()",
        new="        self._end_receiving()",
        test=f"{LINKS}test_what_waits_for_a_peer_that_is_gone_is_dropped_and_what_comes_later_waits_for_its_successor_a14",
    ),
    Mutant(
        rule="A14",
        breaks="frames of the generation before are read",
        file="topology/runtime/links/peers.py",
        old=" or frame.session != self.generation:",
        new=" or frame.session > self.generation:",
        test=f"{GENERATIONS}test_frames_of_an_older_generation_are_dropped_and_counted_whatever_their_kind",
    ),
    Mutant(
        rule="A14",
        breaks="what waits for a peer leaves in the next generation",
        file="topology/runtime/links/peer.py",
        old="        self._end_sessions()\n        self.generation = generation",
        new="        self.welcomed = False\n        self.generation = generation",
        test=f"{GENERATIONS}test_everything_that_waits_for_a_peer_is_dropped",
    ),
    Mutant(
        rule="P1",
        breaks="a tuple of a sender that has gathered is read before the receiver gathers",
        file="topology/runtime/links/peers.py",
        old="        if content.checkpoint > checkpoints.gathered:",
        new="        if False:",
        test=f"{GENERATIONS}test_a_worker_gathers_before_it_reads_what_comes_from_one_that_has_gathered_p1",
    ),
    Mutant(
        rule="P5",
        breaks="a death while a decision is written is told of before the decision",
        file="topology/runtime/supervisor/checkpoints.py",
        old="        if self._is_shut:",
        new="        if False:",
        test="tests/runtime/supervisor/test_run_checkpoints.py::"
        "test_a_death_while_a_decision_is_written_is_dealt_with_after_all_were_told_of_it_p5",
    ),
    Mutant(
        rule="A15",
        breaks="a session goes on under another owner",
        file="topology/runtime/links/peers.py",
        old="frame.sender == peer.owner and ",
        new="",
        test=f"{LINKS}test_frames_of_a_superseded_owner_are_dropped_and_counted_a15",
    ),
    Mutant(
        rule="F37",
        breaks="a hello for another plan is welcomed",
        file="topology/runtime/links/peers.py",
        old="        if (theirs.version, theirs.plan) != (self._greeting.version, self._greeting.plan):",
        new="        if theirs.version != self._greeting.version:",
        test=f"{LINKS}test_a_hello_for_another_plan_is_refused_and_both_are_named_f37",
    ),
    Mutant(
        rule="F70",
        breaks="a socket whose path was deleted is not made again",
        file="topology/runtime/links/zeromq.py",
        old="        if now - self._seen_at >= PATH_S:",
        new="        if False:",
        test="tests/runtime/links/test_transport_again.py::"
        "test_a_deleted_path_is_made_again_and_links_that_stand_are_not_cut_f70",
    ),
    Mutant(
        rule="F71",
        breaks="a link that could not be made is not tried again",
        file="topology/runtime/links/zeromq.py",
        old="            self._unconnected[worker] = address",
        new="            pass",
        test="tests/runtime/links/test_transport_again.py::"
        "test_a_link_that_could_not_be_made_is_made_once_there_are_descriptors_f71",
    ),
    Mutant(
        rule="F72",
        breaks="a sink calls stored what nobody can read any more",
        file="bolts/sinks/batching.py",
        old="self._looked_at != self.stored and isinstance(store, LooksThrough):",
        new="False and isinstance(store, LooksThrough):",
        test="tests/bolts/test_looked_through.py::"
        "test_damage_that_nothing_has_come_upon_is_told_with_the_file_at_the_end_f72",
    ),
    Mutant(
        rule="F71",
        breaks="lines leave though what they are of could not be noted",
        file="spouts/file_tail/spout.py",
        old="            self._is_away(error)\n            return False",
        new="            self._is_away(error)\n            return True",
        test="tests/spouts/test_file_tail_away.py::test_lines_wait_for_a_note_that_can_t_be_kept_and_come_once_f71",
    ),
)
