"""All codes, by group and by name. Pure; for those who look a code up: the command, the docs, another process' word."""

from types import ModuleType
from typing import Final

from topology.codes import comparing, declaring, given, loading, running, starting, tuples
from topology.codes.code import Code

_FILES: Final[dict[str, ModuleType]] = {
    "The command line, and loading a topology": loading,
    "Mistakes of a declaration, and of state in a file": declaring,
    "Settings, sources and sinks": given,
    "Could not start": starting,
    "The run": running,
    "Tuples and records": tuples,
    "Comparing modes": comparing,
}
GROUPS: Final[dict[str, tuple[Code, ...]]] = {
    title: tuple(one for one in vars(file).values() if isinstance(one, Code)) for title, file in _FILES.items()
}
CODES: Final[dict[str, Code]] = {one.name: one for group in GROUPS.values() for one in group}
