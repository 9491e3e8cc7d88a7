"""`kedge new`: make a folder with a topology to start from, its tests, and sample readings.

Writes the files of `topology/cli/starter`; must not know their content. Never overwrites a file. If one file can't be
written, removes the others.
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
from topology.cli.starter.parts import SINKS, SOURCES, StarterPart
from topology.cli.starter.texts import CONNECTED_FILES, connected_files, connected_texts, steps
from topology.codes.command_line import (
    INVALID_PROJECT_NAME,
    PROJECT_DIR_NOT_EMPTY,
    PROJECT_DIR_NOT_WRITABLE,
    RESERVED_PROJECT_NAME,
    UNKNOWN_STARTER,
)
from topology.errors import ConfigurationError, did_you_mean
from topology.text import printable
from topology.user_frames import PACKAGES
from topology.version import version

FILES: Final = {  # file → its purpose, in the order in which they are printed
    "alerts.py": "the topology: readings of sensors, an alert, a sink that stores each alert once",
    "test_alerts.py": "its tests, which take milliseconds",
    "readings.csv": "sample readings",
    "README.md": "the commands to type, in ten lines",
    "pyproject.toml": "its requirements, and the settings of pytest and mypy",
    ".gitignore": "the files that runs leave behind",
}
# The name of a topology, which is also that of a distribution: it begins and ends with a letter or a digit.
NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9])?")
SHOWN_MAX: Final = 3  # names of files in a non-empty folder that the error lists

EXAMPLES: Final = (
    ("kedge new my-alerts", "makes the folder my-alerts, and lists its files"),
    ("kedge new . --name ovens", "in the current folder, which may have hidden files or a .venv"),
    ("kedge new my-alerts --from nats --to postgres", "reads from a server, and stores in another"),
)


def new(
    directory: Annotated[
        str,
        typer.Argument(metavar="DIR", help="A folder that does not exist yet, or is empty; '.' is the current one."),
    ],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the topology. Default: the folder's.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="SOURCE", help=f"Read from: {', '.join(SOURCES)}. Default: a file of readings."),
    ] = None,
    sink: Annotated[
        str | None, typer.Option("--to", metavar="SINK", help=f"Send to: {', '.join(SINKS)}. Default: sqlite.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Make a topology to start from, with its tests.

    The topology reports sensors that are too hot. The folder also has sample readings, and a README of ten lines. With
    --from or --to it reads from a server, or sends to one: compose.yaml starts that, and feed.py sends readings.
    """
    folder = Path(directory)
    parts = None if source is None and sink is None else _parts(source or "stdin", sink or "sqlite")
    refuse_what_is_there(directory, spare=True)
    called = _name(folder, name)
    try:
        with interruptible():
            _write(folder, _texts(called) if parts is None else connected_texts(called, *parts))
    except FileExistsError as error:  # another process made a file in the meantime
        text = f"{directory} or {error.filename} was made in the meantime"
        raise ConfigurationError(text, code=PROJECT_DIR_NOT_EMPTY) from error
    except OSError as error:
        raise ConfigurationError(
            f"{directory} can't be made: {error.strerror or error}", code=PROJECT_DIR_NOT_WRITABLE
        ) from error
    terminal.put(printable(f"{called}: a topology to start from, in {directory}"))
    terminal.put("\n".join(_next_steps(folder, FILES if parts is None else connected_files(*parts), parts)))


def _parts(source: str, sink: str) -> tuple[StarterPart, StarterPart]:
    """Return the source and the sink of these names. Raise ConfigurationError for an unknown name."""
    for option, given, known in (("--from", source, SOURCES), ("--to", sink, SINKS)):
        if given not in known:
            hint = did_you_mean(given, known) or f"; it is one of {', '.join(known)}"
            raise ConfigurationError(f"{option} {given!r:.80} is unknown{hint}", code=UNKNOWN_STARTER)
    return SOURCES[source], SINKS[sink]


def _name(folder: Path, given: str | None) -> str:
    """Return the name of the topology. Raise ConfigurationError if it is invalid or reserved."""
    try:
        last = os.path.basename(os.path.abspath(folder))
    except OSError as error:  # the current folder is gone
        text = f"{folder} can't be made: the current folder is gone ({error.strerror})"
        raise ConfigurationError(
            text, code=PROJECT_DIR_NOT_WRITABLE, next="change to an existing folder: cd ~"
        ) from error
    derived = re.sub(r"[^A-Za-z0-9_-]+", "-", last).strip("-_")[:64].strip("-_")
    called = derived if given is None else given
    if ours := next((name for name in (last, called) if name in PACKAGES), None):
        text = f"{ours!r} is one of Kedge's own packages, which yours would hide"
        raise ConfigurationError(text, code=RESERVED_PROJECT_NAME, next=f"choose another name, for example my-{ours}")
    if not NAME.fullmatch(called):
        what = (
            f"no name can be made of the folder {last!r:.80}" if given is None else f"--name {given!r:.80} is invalid"
        )
        raise ConfigurationError(what, code=INVALID_PROJECT_NAME)
    return called


def refuse_what_is_there(directory: str, *, spare: bool = False) -> None:
    """Raise ConfigurationError unless the folder is empty or does not exist yet. `spare`: ignore hidden files (for
    example of a repository) and virtual environments, unless they are FILES."""
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
        return f"{directory} exists, and is not a folder"
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
    return path.name not in {*FILES, *CONNECTED_FILES} and (
        path.name.startswith(".") or (path / "pyvenv.cfg").is_file()
    )


def _texts(called: str) -> Mapping[str, str]:
    """Return file → its text."""
    starter = importlib.resources.files("topology.cli") / "starter"
    values = {"name": called, "version": version().split("+")[0]}
    texts = {}
    for name in FILES:
        template = starter / f"{name.removeprefix('.')}.tmpl"
        texts[name] = Template(template.read_text("utf-8")).substitute(values)
    return texts


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    """Make the folder, its parents and the files in it; or nothing. Raise OSError."""
    made: list[Path] = []
    try:
        for missing in reversed([level for level in (folder, *folder.parents) if not level.exists()]):
            with held():
                missing.mkdir()
                made.append(missing)
        for name, text in texts.items():
            path = folder / name
            with held(), path.open("x", encoding="utf-8", newline="\n") as file:  # x: never overwrites a file
                made.append(path)
                file.write(text)
    except BaseException:
        with held():
            for path in reversed(made):
                with contextlib.suppress(OSError):
                    path.rmdir() if path.is_dir() else path.unlink()
        raise


def _next_steps(folder: Path, files: Mapping[str, str], parts: tuple[StarterPart, StarterPart] | None) -> Iterator[str]:
    """Yield the files that were made, and the next commands, as the user can type them here."""
    width = max(map(len, files))
    yield from (f"  {name:<{width}}  {what}" for name, what in files.items())
    install = "" if find_spec("pytest") else f"{typed('pip')} install pytest && "
    yield "try next:"
    if not folder.samefile(Path()):
        yield f"  cd {_as_argument(str(folder))}"
    yield from (
        (f"  {step}" for step in steps(*parts, kedge=typed("kedge"), python=_python()))
        if parts
        else (f"  {typed('kedge')} run alerts.py",)
    )
    yield f"  {install}{typed('pytest')}"


def _as_argument(path: str) -> str:
    """Return a path as a shell argument, even if it begins with a dash or has unprintable characters."""
    path = f"./{path}" if path.startswith("-") else path
    return printable(quoted(path))


def _python() -> str:
    """Return the command for the Python that has Kedge."""
    return "python" if typed("kedge") == "kedge" else quoted(sys.executable)


def typed(tool: str) -> str:
    """Return the command for a tool installed beside Kedge, from any folder: its name, if that finds it."""
    found = shutil.which("kedge")
    here = found is not None and Path(found).parent == Path(sys.executable).parent
    return tool if here else f"{quoted(sys.executable)} -m {tool}"
