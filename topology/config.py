"""How a topology is run: one frozen value, checked when it is made. Units are in the names.

Knows nothing of graphs or of the runtime, which reads it.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal

from topology.codes.settings import INVALID_SETTING
from topology.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of one topology; `dataclasses.replace` makes a changed copy. Raises ConfigurationError.

    guarantee          'at-least-once' follows every tuple tree; 'at-most-once' follows none: nothing is replayed.
    max_pending        open trees a spout task; it waits at that many.
    tree_timeout_s     a tree without progress fails after this long, and before about twice as long.
    process_timeout_s  one input that `process` or `execute` works on for longer is failed; only where it awaits, or
                       runs in a thread: write `blocking = True` on a bolt whose `process` computes or waits for long
                       without `await`. Its thread goes on until it returns, and takes one of its places.
    retry_for_s        how long a message whose own tuples fail is tried again, with a back-off of up to 30 s; then it
                       is dead. A mistake of the code makes it dead sooner (docs/how-to/dead-letters.md).
    max_replays        replays of such a message, in place of retry_for_s; None: as retry_for_s says.
    on_dead            'continue', or 'stop': the first dead message ends the run.
    max_dead           dead letters that are kept; at that many the sources wait until some are replayed or dropped.
    max_lag            messages that a task of a spout may be ahead of its oldest one that is not done; there it waits.
                       Where ids are str or bytes 20,000, or twice max_pending if that is more, at most: each that is
                       done is written with every commit.
    durability         of state: 'disk' waits for the disk before what an input has put out leaves; 'process' does not:
                       what was changed last may be lost with the power, though never with a process.
    max_remembered_bytes  of memory that a task with state may take to remember inputs, and what they have put out,
                       until their messages are done; at that many the sources wait.
    start_timeout_s    how long a task may wait at the start for what is not there yet, a server or a followed file;
                       then the run ends with exit status 3. Mistakes are not waited for.
    drain_timeout_s    how long open trees may take to finish once the run is asked to stop.
    max_restarts       restarts within a minute, of all workers together; one death more ends the run. 0: none.
    blocked_timeout_s  a worker process whose event loop one call blocks for longer is killed and replaced.
    check_types        True checks the fields of each record that is emitted; a wrong type fails the input. This takes
                       some microseconds a record. Without it a wrong type passes within one worker, and fails between
                       two.
    """

    guarantee: Literal["at-least-once", "at-most-once"] = "at-least-once"
    max_pending: int = 2_000
    tree_timeout_s: float = 30.0
    process_timeout_s: float = 30.0
    retry_for_s: float = 600.0
    max_replays: int | None = None
    on_dead: Literal["continue", "stop"] = "continue"
    max_dead: int = 10_000
    max_lag: int = 1_000_000
    durability: Literal["disk", "process"] = "disk"
    max_remembered_bytes: int = 256 * 1024 * 1024
    start_timeout_s: float = 60.0
    drain_timeout_s: float = 25.0
    max_restarts: int = 10
    blocked_timeout_s: float = 120.0
    check_types: bool = False

    def __post_init__(self) -> None:
        choices = {
            "guarantee": ("at-least-once", "at-most-once"),
            "on_dead": ("continue", "stop"),
            "durability": ("disk", "process"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ConfigurationError(
                    f"{name} is one of {', '.join(allowed)}, not {getattr(self, name)!r}", code=INVALID_SETTING
                )
        if type(self.check_types) is not bool:
            raise ConfigurationError(f"check_types is True or False, not {self.check_types!r}", code=INVALID_SETTING)
        lowest = {
            "max_pending": 1,
            "max_dead": 1,
            "max_lag": 1,
            "max_remembered_bytes": 1,
            "max_replays": 0,
            "max_restarts": 0,
        }
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None and field.name == "max_replays":
                continue
            if field.name in lowest:
                if type(value) is not int or value < lowest[field.name]:
                    raise ConfigurationError(
                        f"{field.name} is a whole number of at least {lowest[field.name]}, not {value!r}",
                        code=INVALID_SETTING,
                    )
            elif field.name.endswith("_s") and not _is_time(value):
                raise ConfigurationError(
                    f"{field.name} is a number of seconds above 0, not {value!r}", code=INVALID_SETTING
                )


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
