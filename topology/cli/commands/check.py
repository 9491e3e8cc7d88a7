"""`kedge check`: every mistake of a declaration, and what a replay would make wrong; nothing is run."""

from typing import Final

from topology.cli import terminal
from topology.cli.options import ConfigOption, DebugOption, SetOption, TargetArgument, declared
from topology.text import printable

EXAMPLES: Final = (
    ("kedge check alerts.py", "the topology in this file"),
    ("kedge check shop.alerts:nightly --set path=x.log", "what this function makes"),
)


def check(
    target: TargetArgument, set_: SetOption = None, config: ConfigOption = None, debug: DebugOption = False
) -> None:
    """Find every mistake of a topology, without running it.

    Warns besides of what a replay would make wrong. Nothing is read, stored or started.
    """
    topology, _ = declared(target, set_ or [], config or [])
    topology.validate()
    from topology.cli.summary import described
    from topology.runtime.horizon import check_memories, memories_told
    from topology.validate import warnings

    check_memories(topology.components, topology.config)
    found = warnings(topology)
    for warning in found:
        terminal.say(f"warning: {printable(str(warning))}")
    count = f", {len(found)} warning{'s' * (len(found) != 1)}" if found else ""
    terminal.put(f"{topology.name}: {described(topology)}, no mistakes{count}")
    for line in memories_told(topology.components):
        terminal.put(f"  {printable(line)}")
