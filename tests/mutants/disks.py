"""Mutants of what is put on a disk. F18, F20, F22, F64. Data."""

from typing import Final

from tests.mutants.mutant import Mutant

LOG: Final = "tests/storage/log/test_log_"
SYNCING: Final = "tests/unit/filesystem/test_syncing.py::"

WORKER: Final = "tests/storage/test_worker_store.py::"
RESOLVE: Final = "tests/storage/rescale/test_resolve.py::"
DECISION: Final = "tests/storage/directory/test_decision.py::"

MUTANTS: Final = (
    Mutant(
        rule="D1",
        breaks="a checkpoint that was prepared and given up is what the next life has",
        file="topology/storage/sqlite/store.py",
        old="if self._prepared is not None and self._prepared[0] == decided:",
        new="if self._prepared is not None:",
        test=f"{WORKER}test_without_a_log_what_is_not_decided_is_not_there_P5",
    ),
    Mutant(
        rule="D1",
        breaks="a worker that is replaced puts its log into the file, from where it can't go back with the others",
        file="topology/storage/worker_store.py",
        old="            if store.has_log and not logged:\n"
        "                fold(files, store)\n"
        "            elif store.has_log:",
        new="            if store.has_log:\n                fold(files, store)\n            if store.has_log:",
        test=f"{RESOLVE}test_a_life_within_the_run_leaves_the_file_where_all_can_go_back_to",
    ),
    Mutant(
        rule="F56",
        breaks="a log is redone before those of all others are durable",
        file="topology/storage/rescale/resolve.py",
        old="            settle_log(state.files, store)\n",
        new="            pass\n",
        test=f"{RESOLVE}test_wherever_the_power_fails_meanwhile_all_go_back_or_none_does",
    ),
    Mutant(
        rule="D12",
        breaks="a store that lacks the decided checkpoint goes on with what it has",
        file="topology/storage/worker_store.py",
        old="return (store.takes_part or store.prepared > 0) and",
        new="return False and",
        test=f"{RESOLVE}test_a_new_store_and_one_that_took_no_part_have_it_too",
    ),
    Mutant(
        rule="D12",
        breaks="an older copy of a log, without the mark of the decided checkpoint, is opened",
        file="topology/storage/log/recovery.py",
        old="    if is_marked and found.start is None:",
        new="    if False:",
        test="tests/storage/test_worker_store.py::test_an_older_copy_of_a_log_is_told",
    ),
    Mutant(
        rule="F20",
        breaks="a decision is written over the last one",
        file="topology/storage/directory/decision.py",
        old="slot = self._slots.index(min(self._slots))",
        new="slot = self._slots.index(max(self._slots))",
        test=f"{DECISION}test_a_write_that_is_cut_short_leaves_the_one_before",
    ),
    Mutant(
        rule="D10",
        breaks="what is redone leaves the digest as if it had been in the file",
        file="topology/storage/redo.py",
        old="one.digest ^ later.digest",
        new="later.digest",
        test=f"{WORKER}test_what_the_log_has_is_written_with_the_next_checkpoint_and_not_before_P8",
    ),
    Mutant(
        rule="F18",
        breaks="a disk that has failed is asked in another way, which seems to succeed",
        file="topology/filesystem/sync.py",
        old="            if error.errno not in _HAS_NONE:",
        new="            if error.errno < 0:",
        test=f"{SYNCING}test_a_disk_that_has_failed_is_not_asked_in_another_way_F18",
    ),
    Mutant(
        rule="F18",
        breaks="a log trusts what a failed sync has left in memory",
        file="topology/storage/log/opening.py",
        old="    for index, start, end in content.unsure:",
        new="    for index, start, end in ():",
        test=f"{LOG}appends.py::test_what_a_failed_sync_has_left_in_memory_is_written_again_before_it_is_trusted_F18",
    ),
    Mutant(
        rule="F18",
        breaks="the decision file trusts what a failed sync has left in memory",
        file="topology/storage/directory/decision.py",
        old="                self._write(self._slots.index(self.checkpoint), self.checkpoint)\n",
        new="                pass\n",
        test="tests/storage/directory/test_decision.py::test_what_is_read_after_a_sync_that_failed_is_made_durable_"
        "before_anything_stands_on_it_F18",
    ),
    Mutant(
        rule="F22",
        breaks="a log that was emptied is taken for a new one",
        file="topology/storage/log/opening.py",
        old="    if (size := one.file.size()) < BLOCK_BYTES:",
        new="    if (size := one.file.size()) < 0:",
        test=f"{LOG}damage.py::test_a_file_that_was_cut_below_the_room_of_a_new_one_is_refused",
    ),
    Mutant(
        rule="F20",
        breaks="a log writes over a file while the other one is not durable yet",
        file="topology/storage/log/log.py",
        old="        return self._is_other_free and self._synced > self._progress[2]",
        new="        return self._is_other_free",
        test=f"{LOG}power_cuts.py::test_what_was_synced_is_there_wherever_the_power_fails_P12_F20",
    ),
    Mutant(
        rule="F22",
        breaks="a log takes damage for a torn tail",
        file="topology/storage/log/recovery.py",
        old="        if durable > self.end.number:",
        new="        if durable < 0:",
        test=f"{LOG}damage.py::test_a_flipped_byte_is_damage_or_a_torn_tail_and_never_another_record_P12_F22",
    ),
    Mutant(
        rule="F64",
        breaks="a folder is left in the drive's cache",
        file="topology/filesystem/sync.py",
        old="            sync_file(descriptor)\n",
        new="            os.fsync(descriptor)\n",
        test=f"{SYNCING}test_where_the_drive_has_a_cache_of_its_own_that_is_emptied_too_F64",
    ),
)
