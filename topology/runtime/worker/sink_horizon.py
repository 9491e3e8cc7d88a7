"""For how long after it was stored a message may come again, and whether each sink remembers it for so long (C6).

Pure. Must not know any sink: one that drops replays says so by `drops_replays`, and by `remembers_s` for how long.
"""

from collections.abc import Iterable

from topology.codes.settings import SINK_MEMORY_TOO_SHORT
from topology.config import Config
from topology.errors import ConfigurationError
from topology.graph import Declared
from topology.runtime.os_process.restarts import BACKOFF_MAX_S as RESTART_MAX_S
from topology.runtime.tasks.replays import BACKOFF_FIRST_S, BACKOFF_MAX_S


def replay_horizon_s(config: Config) -> float:
    """Seconds between the moment at which an output may be stored first and the last replay of its message.

    Each attempt may be silent for up to twice tree_timeout_s, then comes its back-off; and workers may be restarted.
    Without max_replays the first failure comes after one such silence, and the last replay within retry_for_s of that.

    Not in it, as nothing bounds them: the time in which no run goes on, in which a store is away, and in which a dead
    letter waits to be replayed by hand.
    """
    if config.guarantee == "at-most-once":
        return 0.0
    if config.max_replays is None:
        return config.retry_for_s + 4 * config.tree_timeout_s + config.max_restarts * RESTART_MAX_S
    silent_s = 2 * config.tree_timeout_s * (config.max_replays + 1)
    back_off_s = sum(min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(times, 20)) for times in range(config.max_replays))
    return silent_s + back_off_s + config.max_restarts * RESTART_MAX_S


def check_memories(components: Iterable[Declared], config: Config) -> None:
    """Raises ConfigurationError for a sink that forgets sooner than replays may come."""
    for declared in components:
        remembers_s = getattr(declared.prototype, "remembers_s", None)
        if remembers_s is not None and remembers_s < (horizon_s := replay_horizon_s(config)):
            raise ConfigurationError(
                f"{declared.name!r} remembers what it has stored for {remembers_s:,.0f} s, and a replay may come up to "
                f"{horizon_s:,.0f} s later: {_tries(config)}, tree_timeout_s = "
                f"{config.tree_timeout_s:g}, max_restarts = {config.max_restarts}",
                code=SINK_MEMORY_TOO_SHORT,
            )


def memory_lines(components: Iterable[Declared]) -> list[str]:
    """A line for each sink that drops replays: what its ack stands for, and for how long it remembers (C6, C11)."""
    lines = []
    for declared in components:
        if getattr(declared.prototype, "drops_replays", False):
            remembers_s = getattr(declared.prototype, "remembers_s", None)
            durability = getattr(declared.prototype, "durability", "") or "durable as its own code says"
            for_good = "as long as one may come" if getattr(declared.prototype, "remembers", False) else "for ever"
            until = for_good if remembers_s is None else f"for {remembers_s:,.0f} s"
            lines.append(f"{declared.name}: acks after {durability}; drops what a replay repeats, {until}")
    return lines


def _tries(config: Config) -> str:
    """The setting that counts."""
    if config.max_replays is None:
        return f"retry_for_s = {config.retry_for_s:g}"
    return f"max_replays = {config.max_replays}"
