"""What a tailed path leads to that is no log, and notes that can't be kept now."""

from collections.abc import Callable
from pathlib import Path

import pytest
from source_kit import LAST, LINES, Reading, make_task

from spouts import FileTail
from topology.errors import ConfigurationError, NotesAway
from topology.storage.directory.state_dir import MemoryNotes

PROC = pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="this system has no /proc")
OF_PROC = ["/proc/self/mem", "/proc/self/status"]


class Refusing(MemoryNotes):
    """Notes that can't be kept while `why` is not empty."""

    def __init__(self) -> None:
        super().__init__()
        self.why = ""
        self.refused = 0

    def set(self, name: str, text: str) -> None:
        if self.why:
            self.refused += 1
            raise NotesAway(self.why)
        super().set(name, text)


def append(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def tail(path: Path) -> FileTail:
    return FileTail(path, follow=True, poll_interval_s=0.005, rotated_wait_s=0.01)


@PROC
@pytest.mark.parametrize("target", OF_PROC)
async def test_a_file_of_proc_is_refused_in_one_sentence_when_it_is_opened_f71(tmp_path: Path, target: str) -> None:
    path = tmp_path / "a.log"
    path.symlink_to(target)
    with pytest.raises(ConfigurationError, match="can't be read"):
        Reading(tail(path))


@PROC
@pytest.mark.parametrize("target", OF_PROC)
async def test_a_file_of_proc_that_takes_the_path_is_warned_of_once_and_the_log_is_waited_for_f71(
    tmp_path: Path, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    path, away = tmp_path / "a.log", tmp_path / "a.log.1"
    append(path, *(f"line {number}" for number in range(LINES)))
    reading = Reading(tail(path))
    await reading.until(LINES)
    path.rename(away)
    path.symlink_to(target)
    for number in range(3):
        append(away, f"meanwhile {number}")
        await reading.until_text(f"meanwhile {number}")
    path.unlink()
    append(path, LAST)
    await reading.until_text(LAST)
    warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert ["the file that replaced" in one for one in warned] == [True]
    assert len(reading.texts) == LINES + 4
    reading.close()


@pytest.mark.parametrize("rotated", [False, True])
async def test_lines_wait_for_a_note_that_can_t_be_kept_and_come_once_f71(
    tmp_path: Path, rotated: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kedge.spouts")
    path, notes = tmp_path / "a.log", Refusing()
    append(path, *(f"line {number}" for number in range(LINES)))
    reading = Reading(tail(path), make_task(notes))
    await reading.until(LINES)
    notes.why = "no room"
    if rotated:
        path.rename(tmp_path / "a.log.1")
    append(path, LAST)

    def room_after(tries: int) -> Callable[..., None]:
        keep = notes.set

        def set_or_not(name: str, text: str) -> None:
            if notes.refused >= tries:
                notes.why = ""
            keep(name, text)

        return set_or_not

    notes.set = room_after(2)  # type: ignore[method-assign]
    await reading.until_text(LAST)
    assert notes.refused == 2
    assert reading.spout.away == ""
    assert len(reading.texts) == LINES + 1
    assert len([one for one in caplog.messages if "waits until a note of its position" in one]) == 1
    reading.close()
