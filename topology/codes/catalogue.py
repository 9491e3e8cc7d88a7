"""All codes, by group and by name. Pure; for those who look a code up: the command, the docs, another process' word."""

from types import ModuleType
from typing import Final

from topology.codes import (
    awaiting,
    blocking,
    comparing,
    declaring,
    given,
    limits,
    loading,
    programs,
    rescaling,
    running,
    starting,
    tuples,
)
from topology.codes.code import Code

_FILES: Final[dict[str, tuple[ModuleType, ...]]] = {
    "The command line, and loading a topology": (loading, programs),
    "Mistakes of a declaration, and of state in a file": (declaring,),
    "Settings, sources and sinks": (given,),
    "Could not start": (starting, limits, awaiting, rescaling),
    "The run": (running, blocking),
    "Tuples and records": (tuples,),
    "Comparing modes": (comparing,),
}
GROUPS: Final[dict[str, tuple[Code, ...]]] = {
    title: tuple(sorted((one for file in files for one in vars(file).values() if isinstance(one, Code)), key=str))
    for title, files in _FILES.items()
}
CODES: Final[dict[str, Code]] = {one.name: one for group in GROUPS.values() for one in group}
