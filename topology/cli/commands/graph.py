"""`kedge graph`: the topology as a picture, as text for a terminal, as Mermaid or as SVG; nothing is run.

Decides on a form and on where it goes; what is drawn is for `topology.drawing`. A file is written beside and renamed,
so that it is whole or not there.
"""

import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from topology.cli.command import given_as
from topology.cli.commands.run import check_processes
from topology.cli.options import ConfigOption, DebugOption, SetOption, TargetArgument, declared
from topology.cli.output import terminal
from topology.codes.command_line import GRAPH_NOT_WRITABLE, GRAPH_OVERWRITES_CODE, UNKNOWN_GRAPH_FORMAT
from topology.errors import ConfigurationError, did_you_mean
from topology.filesystem.safe_files import write_anew
from topology.graph import Graph

EXAMPLES: Final = (
    ("kedge graph alerts.py", "boxes and lines, or a list where the terminal is too narrow for these"),
    ("kedge graph alerts.py --output alerts.svg", "a picture for a page; .mmd and .md are Mermaid, .txt is text"),
    ("kedge graph alerts.py --workers 4", "with the tasks that each worker would have"),
)
FILE_COLUMNS: Final = 80  # of text that goes into a file


class Format(StrEnum):
    """What a picture is made of."""

    TEXT = "text"
    MERMAID = "mermaid"
    SVG = "svg"


SUFFIXES: Final = {".svg": Format.SVG, ".mmd": Format.MERMAID, ".md": Format.MERMAID, ".txt": Format.TEXT}


def graph(
    target: TargetArgument,
    format_: Annotated[
        Format | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="text, mermaid or svg; as FILE's name says unless given, and text where there is none.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where it goes: stdout unless given. Overwritten."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", help="Show which tasks each of N worker processes would have."),
    ] = None,
    set_: SetOption = None,
    config: ConfigOption = None,
    debug: DebugOption = False,
) -> None:
    """Draw a topology, without running it.

    Shows who reads whom, by which grouping, and how many tasks there are. No parameters or settings are in it.
    """
    check_processes(workers, None)
    file = Path(output) if output is not None and output != "-" else None
    if file is not None and file.suffix.lower() == ".py":  # the topology itself, most likely
        raise ConfigurationError(
            f"{given_as('--output')} {output}: a picture does not take the place of code", code=GRAPH_OVERWRITES_CODE
        )
    form = format_ or (_format_of(file) if file is not None else Format.TEXT)
    topology, _ = declared(target, set_ or [], config or [], absent=[])
    if file is None:
        terminal.put(_drawn(topology, form, workers, getattr(sys.stdout, "encoding", None) or "utf-8"))
        return
    drawn = _drawn(topology, form, workers, None)
    fenced = f"```mermaid\n{drawn}\n```" if form is Format.MERMAID and file.suffix.lower() == ".md" else drawn
    try:
        write_anew(file, [f"{fenced}\n".encode()])
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{file} can't be written: {why}", code=GRAPH_NOT_WRITABLE) from error


def _drawn(topology: Graph, form: Format, workers: int | None, encoding: str | None) -> str:
    """The picture, in what this encoding has, of a terminal or a pipe; None: for a file."""
    from topology import drawing
    from topology.drawing.as_mermaid import encoded
    from topology.drawing.boxes import ALL

    if form is Format.SVG:
        return drawing.svg(topology, workers=workers)
    if form is Format.MERMAID:
        return encoded(drawing.mermaid(topology, workers=workers), encoding or "utf-8")
    columns = shutil.get_terminal_size().columns if encoding else FILE_COLUMNS
    return drawing.text(topology, workers=workers, width=columns, plain=not _has(encoding or "utf-8", ALL))


def _has(encoding: str, characters: str) -> bool:
    try:
        characters.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _format_of(file: Path) -> Format:
    """What the name of a file says. Raises ConfigurationError where that is nothing."""
    found = SUFFIXES.get(file.suffix.lower())
    if found is None:
        meant = did_you_mean(file.suffix.lower(), SUFFIXES) if file.suffix else ""
        raise ConfigurationError(
            f"{given_as('--output')} {file}: its name tells no format; {', '.join(SUFFIXES)} do{meant}",
            code=UNKNOWN_GRAPH_FORMAT,
        )
    return found
