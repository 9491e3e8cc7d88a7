"""Files that are done are deleted, or moved to another folder. Knows names; must not know when a file is done."""

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from spouts.directory.listing import FoundFile
from topology.clients.errors import invalid
from topology.filesystem.safe_files import rename_over
from topology.filesystem.sync import sync_folder

MOVE: Final = "move:"
SAME_NAME_MAX: Final = 1_000  # files of one name in the folder that they are moved to


@dataclass(frozen=True)
class Tidying:
    """The fate of a file that is done. `folder`: where it is moved to; empty if it is deleted. Methods block."""

    folder: str

    def tidy(self, root: str, files: Iterable[FoundFile]) -> dict[int, str]:
        """Delete or move files, durably. Return those that could not be, by their marks, with the reason. A file that
        has changed since it was read is left alone."""
        refused, folders = dict[int, str](), set[str]()
        for file in files:
            try:
                if not file.is_at(os.stat(file.path)):
                    continue  # it is another file by now
                folders.add(os.path.dirname(file.path) or os.curdir)
                if self.folder:
                    folders.add(self._moved(root, file))
                else:
                    os.unlink(file.path)
            except FileNotFoundError:
                continue
            except OSError as error:
                refused[file.mark] = f"{file.path!r} can't be {self._done}: {error.strerror or error}"
        for folder in folders:
            with contextlib.suppress(OSError):  # it is gone, or its file system has no such call
                sync_folder(Path(folder))
        return refused

    @property
    def _done(self) -> Literal["moved", "deleted"]:
        return "moved" if self.folder else "deleted"

    def _moved(self, root: str, file: FoundFile) -> str:
        """Move a file, and return the folder that has it now. A file with its name there gets no new content: this one
        takes another name."""
        wanted = os.path.join(self.folder, os.path.relpath(file.path, root))
        folder = os.path.dirname(wanted)
        os.makedirs(folder, exist_ok=True)
        for number in range(SAME_NAME_MAX):
            target = wanted if not number else f"{wanted}.{number}"
            if not os.path.lexists(target):
                rename_over(Path(file.path), Path(target))
                return folder
        raise OSError(f"{SAME_NAME_MAX:,} files in {folder!r} have its name")


def tidying_of(after: str | None) -> Tidying | None:
    """Return what `after` says: None, "delete" or "move:FOLDER". Raises ConfigurationError."""
    if after is None:
        return None
    if after == "delete":
        return Tidying("")
    if isinstance(after, str) and after.startswith(MOVE) and after != MOVE:
        return Tidying(after.removeprefix(MOVE))
    raise invalid(f'Directory: after is None, "delete" or "move:FOLDER", not {after!r:.80}')
