"""All codes, by group and by name. Pure. The command and the docs look codes up here, also codes of other processes."""

from types import ModuleType
from typing import Final

from topology.codes import (
    command_line,
    comparison,
    connectors,
    declarations,
    runtime,
    savepoints,
    settings,
    startup,
    tuples,
)
from topology.codes.code import Code

_FILES: Final[dict[str, ModuleType]] = {
    "The command line, and loading a topology": command_line,
    "Mistakes of a declaration, and of state in a file": declarations,
    "Settings, sources and sinks": settings,
    "Could not start": startup,
    "The run": runtime,
    "Tuples and records": tuples,
    "Comparing modes": comparison,
    "Checkpoints under a name": savepoints,
    "Sources and sinks on servers": connectors,
}
GROUPS: Final[dict[str, tuple[Code, ...]]] = {
    title: tuple(sorted((code for code in vars(file).values() if isinstance(code, Code)), key=str))
    for title, file in _FILES.items()
}
CODES: Final[dict[str, Code]] = {code.name: code for group in GROUPS.values() for code in group}
