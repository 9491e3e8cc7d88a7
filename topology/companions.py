"""Companions: processes beside a run, which it starts, watches, starts again and ends. What one is, and how it begins.

A database of its own, a query engine's driver: what a topology needs while it runs, and what can't be a thread of it.
Pure: nothing is started here. Must not know how a process is started, nor what any companion does.

`kedge run` has options for companions that a package brings: an entry point of the group `kedge.companions`, NAME =
"module:attribute", is a companion's name and its options, a tuple of `Option`. Its module is imported with each
`kedge run`, so it should be light.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Launch:
    """How a companion's process is started: its command line, all of its environment, and what it is given on its
    stdin, which is closed then. Everybody on the machine can read command lines: what is secret goes by `given`."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    given: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Option:
    """An option of `kedge run` that is for a companion. `name` begins with two dashes. `pairs`: it takes KEY=VALUE, and
    may be repeated."""

    name: str
    metavar: str
    help: str
    pairs: bool = False


class Companion(ABC):
    """A process beside a run. `Topology.companion` declares one; subclasses say by `launch` what it is.

    It is started with the run, on the machine of `kedge run`, before components are opened, and nothing waits for it:
    components that need it ask for it in vain until it is there. Where it ends with another status than 0, it is
    started again, as a worker is, after a back-off; where that comes more often than `max_restarts` allows within a
    minute, the run ends. One that ends with status 0 is done, and is left alone. At the end of the run, after all
    components are closed, it gets SIGTERM, and 10 seconds later SIGKILL. All that it has started itself goes with it,
    as long as that stays in its process group; so it does where the run is killed.

    What it writes to stdout are lines. Those that begin with one of these words are for the run, others are logged.

        ready           It has begun its work.
        status TEXT     For people: it is shown.
        failed TEXT     Something that a user has to mend: the run ends with this sentence, and its exit status is 1.

    What it writes to stderr goes to `companions/<name>.log` in the run's folder for files (`Task.folder`), which is
    bounded; its last lines are told when it dies.

    name        unique in the topology; 1 to 64 of A-Z a-z 0-9 _ and -.
    starting_s  how many seconds it may take until it says `ready`; people are told where it takes longer.
    """

    name: str
    starting_s: float = 120.0

    @abstractmethod
    def launch(self, folder: Path) -> Launch:
        """How to start it, each time anew. `folder` is that of `Task.folder`. Called on the loop, so it should be
        quick. Raises ConfigurationError for what the user has to mend, which ends the run."""

    def configure(self, name: str, value: str | Mapping[str, str], called: str) -> None:
        """Takes what an `Option` of `kedge run` says, which comes before what was declared; it is given before the
        first `launch`, in the process of `kedge run`. `value`: a text, or pairs; `called` is what the user has called
        the option by, for sentences. Raises ConfigurationError. Called only where the package has options for it."""
        raise NotImplementedError(f"{type(self).__name__} has an option {name}, and takes none")
