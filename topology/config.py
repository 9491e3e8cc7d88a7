"""The settings of a run: one frozen value, checked when it is made. Units are in the names.

Knows nothing of graphs or of the runtime, which reads it.
"""

import dataclasses
from dataclasses import dataclass
from typing import Final, Literal

from topology.codes.settings import INVALID_SETTING
from topology.errors import ConfigurationError

CHECKPOINT_MIN_S: Final = 0.01  # a checkpoint costs some milliseconds, even if little has changed
CHECKPOINT_MAX_S: Final = 3_600.0  # until then all inputs are remembered, and a restart does them again


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of one topology; `dataclasses.replace` makes a changed copy. Raises ConfigurationError for an invalid
    value.

        topology = Topology("alerts", Config(max_pending=500, tree_timeout_s=10.0))

    guarantee          'at-least-once' tracks every tuple tree and replays what fails. 'at-most-once' tracks none, and
                       nothing is replayed.
    max_pending        Open trees per spout task. A spout task with this many waits.
    tree_timeout_s     Seconds without progress after which a tree fails. It fails at the latest after about twice as
                       long.
    process_timeout_s  Seconds that `process` or `execute` may work on one input; then the input fails. This applies
                       only to a bolt that awaits or runs in a thread. Set `blocking = True` on a bolt whose `process`
                       computes or waits for long without `await`. Its thread goes on until `process` returns, and takes
                       one of the bolt's places.
    retry_for_s        Seconds for which a message whose own tuples fail is tried again, with a back-off of up to 30 s.
                       Then the message is dead. A mistake in the code makes it dead sooner
                       (docs/how-to/dead-letters.md).
    max_replays        Replays of such a message, in place of retry_for_s. None: retry_for_s applies.
    on_dead            'continue', or 'stop': the first dead message ends the run.
    max_dead           Dead letters that are kept. At this many the sources wait until some are replayed or dropped.
    max_lag            Messages that a spout task may be ahead of its oldest unfinished message; the task waits there.
                       For ids that are str or bytes, the limit is at most 20,000, or twice max_pending if that is more,
                       because every checkpoint has each finished id above the oldest unfinished one.
    durability         The event that outputs of bolts with state wait for. 'disk' (default): a record of the input is
                       synced to the disk, in a log. 'process': the record is written; it survives the process, but not
                       a loss of power. 'checkpoint': none. After the death of a worker all workers go back to the last
                       checkpoint, and sources emit again what is not in it. docs/explanation/durability.md compares
                       the three.
    checkpoint_s       Seconds between two checkpoints of the run, from 0.01 to 3,600. A checkpoint has the state, known
                       inputs and positions of one moment. Some events take one sooner: a dead letter, a source that
                       waits for one (max_lag, max_remembered_bytes), a long log, the end of the run. In an
                       idle run they are a second apart, and slow ones are five times as long apart as one takes, up
                       to a second.
    keep_checkpoints   Decided checkpoints that are kept. 1: the last one. With more, the run keeps one per minute,
                       under a name such as auto-DATE-TIME, and deletes the oldest (docs/how-to/time-travel.md). Each is
                       a copy of all state.
    max_remembered_bytes  Bytes of memory that a task with state may use to remember inputs and their outputs until
                          their messages are done. At this many the sources wait.
    start_timeout_s    Seconds that a task may wait at the start for something that is missing, such as a server or a
                       followed file. Then the run ends with exit status 3. Kedge does not wait for mistakes.
    drain_timeout_s    Seconds that open trees may take to finish once the run is asked to stop.
    max_restarts       Restarts within a minute, of all workers together. One death more ends the run. 0: no restart.
    blocked_timeout_s  Seconds for which one call may block a worker's event loop. Then the worker process is killed and
                       replaced.
    check_types        True checks the fields of each emitted record, and a wrong type fails the input. The check takes
                       some microseconds per record. Without it, a wrong type passes within one worker and fails between
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
    durability: Literal["disk", "process", "checkpoint"] = "disk"
    checkpoint_s: float = 0.2
    keep_checkpoints: int = 1
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
            "durability": ("disk", "process", "checkpoint"),
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
            "keep_checkpoints": 1,
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
            elif field.name == "checkpoint_s":
                if value is None or not _is_time(value) or not CHECKPOINT_MIN_S <= value <= CHECKPOINT_MAX_S:
                    raise ConfigurationError(
                        f"checkpoint_s is a number of seconds from {CHECKPOINT_MIN_S:g} to {CHECKPOINT_MAX_S:,.0f}, "
                        f"not {value!r}",
                        code=INVALID_SETTING,
                    )
            elif field.name.endswith("_s") and not _is_time(value):
                raise ConfigurationError(
                    f"{field.name} is a number of seconds above 0, not {value!r}", code=INVALID_SETTING
                )


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
