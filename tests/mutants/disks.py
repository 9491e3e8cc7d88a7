"""Mutants of what is put on a disk. F18, F64. Data."""

from typing import Final

from tests.mutants.mutant import Mutant

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
        rule="F64",
        breaks="a folder is left in the drive's cache",
        file="topology/filesystem/sync.py",
        old="            sync_file(descriptor)\n",
        new="            os.fsync(descriptor)\n",
        test=f"{SYNCING}test_where_the_drive_has_a_cache_of_its_own_that_is_emptied_too_F64",
    ),
)
