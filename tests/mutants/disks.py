"""Mutants of what is put on a disk. F18, F20, F22, F64. Data."""

from typing import Final

from tests.mutants.mutant import Mutant

LOG: Final = "tests/storage/log/test_log_"
SYNCING: Final = "tests/unit/filesystem/test_syncing.py::"

MUTANTS: Final = (
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
