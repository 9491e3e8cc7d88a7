"""`kedge graph`: draw the topology as text for a terminal, as Mermaid or as SVG, without running it.

Chooses the format and the destination; `topology.drawing` draws. A file is written under another name and renamed, so
that it is complete or absent.
"""

import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from topology.cli.command import given_as
from topology.cli.options import ConfigOption, DebugOption, SetOption, TargetArgument, declared
from topology.cli.output import terminal
from topology.cli.worker_options import check_processes
from topology.codes.command_line import GRAPH_NOT_WRITABLE, GRAPH_OVERWRITES_CODE, UNKNOWN_GRAPH_FORMAT
from topology.errors import ConfigurationError, did_you_mean
from topology.filesystem.safe_files import write_anew
from topology.graph import Graph

EXAMPLES: Final = (
    ("kedge graph alerts.py", "boxes and lines, or a list if the terminal is too narrow"),
    ("kedge graph alerts.py --output alerts.svg", "a picture for a page; .mmd and .md are Mermaid, .txt is text"),
    ("kedge graph alerts.py --workers 4", "with the tasks that each worker would have"),
)
FILE_COLUMNS: Final = 80  # columns of a text picture in a file


class Format(StrEnum):
    """The format of a picture."""

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
            help="text, mermaid or svg. Default: the format that FILE's name ends in; text without a FILE.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the picture to FILE, and overwrite it. Default: stdout."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", help="Show the tasks of each of N worker processes."),
    ] = None,
    set_: SetOption = None,
    config: ConfigOption = None,
    debug: DebugOption = False,
) -> None:
    """Draw a topology, without running it.

    Shows which component reads which, by which grouping, and how many tasks each has. Shows no parameters or settings.
    """
    check_processes(workers, None)
    file = Path(output) if output is not None and output != "-" else None
    if file is not None and file.suffix.lower() == ".py":  # the topology itself, most likely
        raise ConfigurationError(
            f"{given_as('--output')} {output}: a picture must not overwrite code", code=GRAPH_OVERWRITES_CODE
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
    """Draw the picture with characters of this encoding, of a terminal or a pipe; None: for a file."""
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
    """Return the format that a file's name ends in. Raise ConfigurationError if it ends in none."""
    found = SUFFIXES.get(file.suffix.lower())
    if found is None:
        meant = did_you_mean(file.suffix.lower(), SUFFIXES) if file.suffix else ""
        raise ConfigurationError(
            f"{given_as('--output')} {file}: unknown format; known are {', '.join(SUFFIXES)}{meant}",
            code=UNKNOWN_GRAPH_FORMAT,
        )
    return found
