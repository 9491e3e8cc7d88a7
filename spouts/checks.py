"""Checks that every source makes when it is opened: a single task, and a position of its own kind.

Knows neither files nor clocks.
"""

from topology.codes.settings import POSITION_KIND_MISMATCH, SINGLE_TASK_SOURCE
from topology.components import Task
from topology.errors import ConfigurationError


def alone(task: Task, what: str) -> None:
    """Raise ConfigurationError if the source has several tasks. `what` describes the source: "reads one file"."""
    if task.tasks != 1:
        text = f"spout {task.component!r} {what}, so it has one task, not {task.tasks}"
        raise ConfigurationError(text, code=SINGLE_TASK_SOURCE)


def no_position(position: object, wanted: str) -> ConfigurationError:
    """Return the error for a position of another kind; `wanted`: "a position in a file is a byte offset"."""
    return ConfigurationError(f"{wanted}, not {position!r}", code=POSITION_KIND_MISMATCH)
