"""The result of a run: the value of `topology.run()`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from topology.runtime.telemetry.metrics import Snapshot


@dataclass(frozen=True)
class Report:
    """The last snapshot, and how the run ended.

    ended    'ended': by itself; 'stopped': drained for a signal or the caller; 'aborted': ended at once on request;
             'failed': a source raised, a part of the runtime broke, or on_dead="stop" met a dead message.
    aborted  Messages whose trees were not done at the end; with at-most-once, inputs that were left queued or in hand.
    error    What the source or the runtime raised, or None.
    restarts How many workers died and were started again; 0 for a run in one process.
    summaries  component → the lines that its tasks' `summary` returned. Components without lines are left out.
    new_letters  Dead letters that are stored now and were not at the beginning. For workers that have died, these may
             include some that `snapshot` does not count.
    keeps_letters  True if dead letters are stored, so that none in `snapshot` means that none is left.
    clean    True if the state directory says that all is done, so that a changed topology may follow (B11). It is
             False if messages of an earlier run have not come again. After an interrupted run it is False too if a
             source of this run has emitted nothing new. A source counts as done if it has ended, or had nothing for
             some seconds when the run was drained. Means nothing without a state directory.
    """

    snapshot: Snapshot
    ended: str = "ended"
    aborted: int = 0
    error: BaseException | None = None
    summaries: Mapping[str, list[str]] = field(default_factory=dict)
    restarts: int = 0
    clean: bool = True
    new_letters: int = 0
    keeps_letters: bool = False

    @property
    def exit_status(self) -> int:
        """Return 0 if nothing was aborted and no message died or all dead letters are gone; else 1."""
        return 1 if self.dead or self.aborted or self.ended in ("failed", "aborted") else 0

    @property
    def dead(self) -> int:
        """Return the number of messages that died; 0 if letters are stored and all were replayed or dropped by the
        end."""
        if self.keeps_letters and not self.snapshot.letters:
            return 0
        return self.snapshot.total("dead") or self.new_letters

    @property
    def drained(self) -> bool:
        """Return True if everything that this run has read is done."""
        return self.ended in ("ended", "stopped") and not self.aborted and self.error is None
