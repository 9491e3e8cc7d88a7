"""Companions: processes that a run starts next to itself, watches, restarts and ends. This file has their declaration.

A companion is something that a topology needs while it runs and that cannot be a thread of it, such as a database or
the driver of a query engine. Pure: nothing is started here. Must not know how a process is started, nor the work of any
companion.

A package can bring companions with options for `kedge run`, by an entry point of the group `kedge.companions`. NAME =
"module:attribute" is a companion's name and its options, a tuple of `Option`. Each `kedge run` imports the module, so
it should be light.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Launch:
    """The start of a companion's process: its command line, its whole environment, and its input on stdin, which is
    then closed. Every user of the machine can read command lines, so pass secrets by `given`."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    given: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Option:
    """An option of `kedge run` for a companion. `name` begins with two dashes. `pairs`: the option takes KEY=VALUE and
    may be repeated."""

    name: str
    metavar: str
    help: str
    pairs: bool = False


class Companion(ABC):
    """A process next to a run. `Topology.companion` declares one; subclasses describe it by `launch`.

        class Redis(Companion):
            name = "redis"

            def launch(self, folder: Path) -> Launch:
                return Launch(("redis-server", "--port", "6390"), dict(os.environ))

        topology.companion(Redis())

    The run starts it on the machine of `kedge run`, before components are opened, and nothing waits for it. Components
    that need it must retry until it is there. If it ends with another status than 0, the run restarts it after a
    back-off, as it does a worker. If that happens more often within a minute than `max_restarts` allows, the run ends.
    A companion that ends with status 0 is done, and is left alone. At the end of the run, after all components are
    closed, it gets SIGTERM, and 10 seconds later SIGKILL. Its own child processes end with it as long as they stay in
    its process group, even if the run is killed.

    Its stdout is read as lines. Lines that begin with one of these words are for the run; others are logged.

        ready           It has begun its work.
        status TEXT     Shown to people.
        failed TEXT     A fault that a user has to fix: the run ends with this sentence, and its exit status is 1.

    Its stderr goes to `companions/<name>.log` in the run's folder for files (`Task.folder`). The log is bounded; its
    last lines are reported when the companion dies.

    name        Unique in the topology; 1 to 64 of A-Z a-z 0-9 _ and -.
    starting_s  Seconds that it may take until it writes `ready`; Kedge reports if it takes longer.
    """

    name: str
    starting_s: float = 120.0

    @abstractmethod
    def launch(self, folder: Path) -> Launch:
        """Return the command of one start; called for each start. `folder` is that of `Task.folder`.

        Called on the loop, so it should be quick. Raises ConfigurationError for a fault that the user has to fix, which
        ends the run.
        """

    def configure(self, name: str, value: str | Mapping[str, str], called: str) -> None:
        """Take the value of an `Option` of `kedge run`, which overrides the declaration. Called before the first
        `launch`, in the process of `kedge run`, and only if the package has options for this companion.

        `value`: a text, or pairs. `called`: the name that the user gave the option, for messages. Raises
        ConfigurationError.
        """
        raise NotImplementedError(f"{type(self).__name__} has an option {name}, and takes none")
