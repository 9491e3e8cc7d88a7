"""`kedge new`: a folder with a topology to start from, its tests, and readings to try it on.

Writes what is in `topology/cli/starter`, and knows nothing of what that says. A file that is there is never
overwritten, and where one can't be written, nothing of the others is left.
"""

import contextlib
import importlib.resources
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Annotated, Final

import typer

from topology.cli.cleanup import held, interruptible
from topology.cli.next_steps import quoted
from topology.cli.options import DebugOption
from topology.cli.output import terminal
from topology.codes.command_line import (
    INVALID_PROJECT_NAME,
    PROJECT_DIR_NOT_EMPTY,
    PROJECT_DIR_NOT_WRITABLE,
    RESERVED_PROJECT_NAME,
)
from topology.errors import ConfigurationError
from topology.text import printable
from topology.user_frames import PACKAGES
from topology.version import version

FILES: Final = {  # file → what it is, in the order in which they are told
    "alerts.py": "the topology: readings of sensors, an alert, a sink that stores each alert once",
    "test_alerts.py": "its tests, which take milliseconds",
    "readings.csv": "readings to try it on",
    "README.md": "what to type, in ten lines",
    "pyproject.toml": "what it needs, and the settings of pytest and mypy",
    ".gitignore": "what runs leave behind",
}
# A topology's name, and a distribution's besides: that begins and ends with a letter or a digit.
NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9])?")
SHOWN_MAX: Final = 3  # names of what is in the way

EXAMPLES: Final = (
    ("kedge new my-alerts", "makes the folder my-alerts, and tells what is in it"),
    ("kedge new . --name ovens", "in the current folder, which is empty but for hidden files or a .venv"),
)


def new(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="A folder that is not there yet, or is empty; '.' is the current one.")
    ],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="The topology's name; the folder's unless given.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Make a topology to start from, with its tests.

    It tells of sensors that are too hot. Beside it are readings to try it on, and a README of ten lines.
    """
    folder = Path(directory)
    refuse_what_is_there(directory, spare=True)
    called = _name(folder, name)
    try:
        with interruptible():
            _write(folder, _texts(called))
    except FileExistsError as error:  # in the meantime: somebody else is at it, too
        text = f"{directory} is there already: it was made in the meantime, or {error.filename} was"
        raise ConfigurationError(text, code=PROJECT_DIR_NOT_EMPTY) from error
    except OSError as error:
        raise ConfigurationError(
            f"{directory} can't be made: {error.strerror or error}", code=PROJECT_DIR_NOT_WRITABLE
        ) from error
    terminal.put(printable(f"{called}: a topology to start from, in {directory}"))
    terminal.put("\n".join(_told(folder)))


def _name(folder: Path, given: str | None) -> str:
    """What the topology is called. Raises ConfigurationError where that can't be."""
    try:
        last = os.path.basename(os.path.abspath(folder))
    except OSError as error:  # of the current folder
        text = f"{folder} can't be made: the current folder is gone ({error.strerror})"
        raise ConfigurationError(
            text, code=PROJECT_DIR_NOT_WRITABLE, next="change to a folder that is there: cd ~"
        ) from error
    derived = re.sub(r"[^A-Za-z0-9_-]+", "-", last).strip("-_")[:64].strip("-_")
    called = derived if given is None else given
    if ours := next((one for one in (last, called) if one in PACKAGES), None):
        text = f"{ours!r} is a package of Kedge's own, which yours would hide"
        raise ConfigurationError(text, code=RESERVED_PROJECT_NAME, next=f"take another name: my-{ours}, say")
    if not NAME.fullmatch(called):
        what = (
            f"no name can be made of the folder {last!r:.80}" if given is None else f"--name {given!r:.80} is no name"
        )
        raise ConfigurationError(what, code=INVALID_PROJECT_NAME)
    return called


def refuse_what_is_there(directory: str, *, spare: bool = False) -> None:
    """Raises ConfigurationError for what is no folder that is empty or not there yet. `spare`: hidden files (of a
    repository, say) and virtual environments do not count, unless they are FILES."""
    text = _in_the_way(directory, spare)
    if text:
        raise ConfigurationError(text, code=PROJECT_DIR_NOT_EMPTY)


def _in_the_way(directory: str, spare: bool) -> str:
    if not directory:
        return "a folder without a name can't be made"
    folder = Path(directory)
    if not os.path.lexists(folder):
        return ""
    if not folder.is_dir():
        return f"{directory} is there already, and is no folder"
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        return f"{directory} can't be read: {error.strerror}"
    names = [path.name for path in paths if not (spare and _spared(path))]
    if not names:
        return ""
    more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
    return f"{directory} is not empty: it has {', '.join(names[:SHOWN_MAX])}{more}"


def _spared(path: Path) -> bool:
    return path.name not in FILES and (path.name.startswith(".") or (path / "pyvenv.cfg").is_file())


def _texts(called: str) -> Mapping[str, str]:
    """File → its text."""
    starter = importlib.resources.files("topology.cli") / "starter"
    values = {"name": called, "version": version().split("+")[0]}
    texts = {}
    for name in FILES:
        template = starter / f"{name.removeprefix('.')}.tmpl"
        texts[name] = Template(template.read_text("utf-8")).substitute(values)
    return texts


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    """Makes the folder, with those above it, and the files in it; or nothing at all. Raises OSError."""
    made: list[Path] = []
    try:
        for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
            with held():
                missing.mkdir()
                made.append(missing)
        for name, text in texts.items():
            path = folder / name
            with held(), path.open("x", encoding="utf-8", newline="\n") as file:  # x: never another's
                made.append(path)
                file.write(text)
    except BaseException:
        with held():
            for path in reversed(made):
                with contextlib.suppress(OSError):
                    path.rmdir() if path.is_dir() else path.unlink()
        raise


def _told(folder: Path) -> Iterator[str]:
    """What was made, and the next three commands, as they can be typed here."""
    width = max(map(len, FILES))
    yield from (f"  {name:<{width}}  {what}" for name, what in FILES.items())
    install = "" if find_spec("pytest") else f"{typed('pip')} install pytest && "
    yield "try next:"
    if not folder.samefile(Path()):
        yield f"  cd {_as_argument(str(folder))}"
    yield f"  {typed('kedge')} run alerts.py"
    yield f"  {install}{typed('pytest')}"


def _as_argument(path: str) -> str:
    """A path as it can be typed into a shell, though it begins with a dash or has what no terminal shows."""
    path = f"./{path}" if path.startswith("-") else path
    return printable(quoted(path))


def typed(tool: str) -> str:
    """How a tool that is installed beside Kedge is typed, from any folder: by its name where that finds this one."""
    found = shutil.which("kedge")
    here = found is not None and Path(found).parent == Path(sys.executable).parent
    return tool if here else f"{quoted(sys.executable)} -m {tool}"
