"""How a run has ended: what `topology.run()` returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from topology.runtime.telemetry.metrics import Snapshot


@dataclass(frozen=True)
class Report:
    """The last snapshot, and how the run ended.

    ended    'ended': by itself; 'stopped': drained for a signal or the caller; 'aborted': told to end at once;
             'failed': a source raised, a part of the runtime broke, or on_dead="stop" met a dead message.
    aborted  messages whose trees were not done at the end; at-most-once, inputs that were left queued or in hand.
    error    what the source or the runtime raised, or None.
    restarts How many workers have died and were begun again; 0 where all is one process.
    summaries  component → the lines that its tasks' `summary` gave; those that gave none are not in it.
    new_letters  Dead letters that are kept now and were not at the beginning: of workers that have died there may be
             some that `snapshot` does not count.
    keeps_letters  Whether dead letters are kept, so that none in `snapshot` means that none is left.
    clean    Whether the state directory says that all is done, so that a changed topology may follow (B11): not where
             messages of an earlier run have not come again, nor where such a run was cut short and a source of this one
             has given nothing new, unless it has ended, or had nothing for some seconds when the run was drained.
             Without a state directory it means nothing.
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
        """0 when no message ended dead, or no letter of one is left, and nothing was aborted; else 1."""
        return 1 if self.dead or self.aborted or self.ended in ("failed", "aborted") else 0

    @property
    def dead(self) -> int:
        """Messages that ended dead; 0 where letters are kept, and all were replayed or dropped by the end."""
        if self.keeps_letters and not self.snapshot.letters:
            return 0
        return self.snapshot.total("dead") or self.new_letters

    @property
    def drained(self) -> bool:
        """Whether everything that this run has read is done."""
        return self.ended in ("ended", "stopped") and not self.aborted and self.error is None
