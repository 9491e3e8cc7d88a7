"""The state directory of a command: found by a topology's name, by the file that declares it, or as the only one.

Knows folders and names; must not know the content of a state directory nor its user.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from topology.cli.command import given_as
from topology.cli.state_dirs import HOME, NAME, state_dirs, visible_state_dirs
from topology.codes.command_line import (
    AMBIGUOUS_TOPOLOGY,
    NO_STATE_DIRS,
    STATE_DIR_NOT_FOUND,
    TOPOLOGY_AND_STATE_DIR,
    TOPOLOGY_NEVER_RUN,
)
from topology.errors import ConfigurationError, did_you_mean
from topology.text import printable

LISTED_MAX: Final = 20  # topologies that an error lists
_FILE: Final = re.compile(r"[./\\:]")  # characters in the name of a file or module that a topology's name cannot have


def _offered(incomplete: str) -> list[str]:
    return [path.name for path in visible_state_dirs() if path.name.startswith(incomplete)]


_NAMED: Final = "NAME-OR-FILE"
_HELP: Final = (
    "The topology: its name, as in .kedge/NAME, or the file that declares it. Default: the only one in .kedge."
)
TopologyArgument = Annotated[str | None, typer.Argument(metavar=_NAMED, help=_HELP, autocompletion=_offered)]
TopologyOption = Annotated[str | None, typer.Option("--topology", metavar=_NAMED, help=_HELP, autocompletion=_offered)]
WhereOption = Annotated[
    Path | None,
    typer.Option(
        "--state-dir", metavar="DIR", readable=False, help="The topology's state directory. Default: .kedge/NAME."
    ),
]


def is_file(named: str) -> bool:
    """Return True if this names a file or a module that declares a topology, and not the topology itself."""
    return _FILE.search(named) is not None


def place(named: str | None, state_dir: Path | None, *, by: str = "", narrowed: Any = None) -> Path:
    """Return the state directory of a command, which exists. `by`: the option that names a topology, if an argument
    does not. `narrowed`: a function that returns True for the candidates, if there are several directories.

    A file is imported, as kedge run does, because only the import shows the name of its topology. Raises
    ConfigurationError if no directory fits, or several do.
    """
    if state_dir is not None:
        if named is not None:
            text = f"{given_as('--state-dir')} names one run, and {printable(named)!r} may name another"
            raise ConfigurationError(text, code=TOPOLOGY_AND_STATE_DIR)
        if not state_dir.is_dir():
            shown = printable(str(state_dir))
            text = f"{shown!r} is not a directory" if state_dir.exists() else f"there is no state directory {shown!r}"
            raise ConfigurationError(text, code=STATE_DIR_NOT_FOUND)
        return state_dir
    there = state_dirs()
    if named is not None:
        return _named(named, there)
    if not there:
        raise ConfigurationError(f"no topology has run in this folder: {HOME} is empty or missing", code=NO_STATE_DIRS)
    if len(there) > 1 and narrowed is not None:
        there = [path for path in there if narrowed(path)] or there
    if len(there) > 1:
        names = ", ".join(path.name for path in there[:LISTED_MAX])
        more = f" and {len(there) - LISTED_MAX:,} more" if len(there) > LISTED_MAX else ""
        text = f"several topologies have state in {HOME}: {names}{more}"
        advice = f"name one of them: {by} {there[0].name}" if by else "name one of them"
        raise ConfigurationError(text, code=AMBIGUOUS_TOPOLOGY, next=advice)
    return there[0]


def _named(named: str, there: list[Path]) -> Path:
    name = named
    if is_file(named):
        from topology.cli.options import declared

        name = declared(named, [], [])[0].name
    if not NAME.fullmatch(name) or not (HOME / name).is_dir():
        near = did_you_mean(name, [path.name for path in there])
        text = f"topology {name!r:.80} has no state in {HOME}{near}"
        raise ConfigurationError(
            text, code=TOPOLOGY_NEVER_RUN, next=f"name one that has, or pass its {given_as('--state-dir')}"
        )
    return HOME / name
