"""Suggested next command lines, which the user can paste unchanged. They call kedge by the name that the user typed.
They name the state directory if kedge would not find it otherwise.

Knows words and folders; must not know what the commands do.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from topology.cli.redact import blind
from topology.cli.state_dirs import HOME, visible_state_dirs
from topology.text import printable

ONCE: Final = frozenset({"--fresh", "--accept-duplicates", "--accept-loss", "--run-id=new"})  # options for one run only
NEW_ID: Final = ("--run-id", "new")  # the same option in two words, for one run only
FROM: Final = "--from"  # an option for one run only, with its value in the same word or in the next


def again(argv: Sequence[str]) -> str:
    """Return the command line to run the same topology again."""
    return f"{_command(argv[0])} {' '.join(map(quoted, blind(_for_good(argv[1:]))))}"


def quoted(word: str) -> str:
    """Quote a word for a shell, in one line and without characters that a terminal would interpret (S11)."""
    if word.isprintable():
        return shlex.quote(word)
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\{byte:03o}" for byte in os.fsencode(word))
    return f"$'{''.join(plain)}'"


def dead_list(directory: Path) -> str:
    """Return the command that lists the dead letters in this state directory."""
    return f"{_ours()} dead list{_found(directory, '--topology ')}"


def stop(directory: Path, option: str = "") -> str:
    """Return the command that stops the run on this state directory, with one option of its own."""
    return f"{_ours()} stop{_found(directory, '')}{' ' * bool(option)}{option}"


def run_from(directory: Path, name: str) -> str:
    """Return the command that begins from a checkpoint of this state directory."""
    where = "" if directory.parent == HOME else f" --state-dir {printable(quoted(str(directory)))}"
    return f"{_ours()} run FILE {FROM} {quoted(name)}{where}"


def delete_checkpoint(directory: Path, name: str) -> str:
    """Return the command that deletes a kept checkpoint of this state directory."""
    return f"{_ours()} state checkpoint --delete {quoted(name)}{_found(directory, '--topology ')}"


def _found(directory: Path, by: str) -> str:
    """Return the words that name this state directory; none for the only one of this folder."""
    if directory.parent != HOME:
        return f" --state-dir {printable(quoted(str(directory)))}"
    return "" if visible_state_dirs() == [directory] else f" {by}{quoted(directory.name)}"


def _ours() -> str:
    """Return the command as the user typed it; `kedge` if another program called us."""
    return _command(sys.argv[0]) if Path(sys.argv[0]).name in ("kedge", "kedge.py") else "kedge"


def _command(typed: str) -> str:
    if Path(typed).name == "kedge.py":
        return "python -m kedge"
    if shutil.which("kedge") == typed:
        return "kedge"
    path = Path(typed)
    within = path.is_absolute() and path.is_relative_to(Path.cwd())
    return quoted(str(path.relative_to(Path.cwd())) if within else typed)


def _for_good(words: Sequence[str]) -> list[str]:
    """Return the words without options that are meant for one run only."""
    words = (
        [
            word
            for before, word in zip(("", *words[:-1]), words, strict=True)
            if FROM not in (before, word) and not word.startswith(f"{FROM}=")
        ]
        if words
        else []
    )
    pairs = zip(("", *words[:-1]), words, (*words[1:], ""), strict=True) if words else ()
    return [
        word
        for before, word, after in pairs
        if word not in ONCE and (before, word) != NEW_ID and (word, after) != NEW_ID
    ]
