"""K478: a component that has waited at the start for what it needs, and in vain. Words only."""

from typing import Final

from topology.codes.code import Code

K478: Final = Code(
    "K478",
    "A component waits for what is not there yet",
    "What a spout or bolt needs to open is late: a server that is still starting, a file that nobody has written yet. "
    "The run waits for it up to start_timeout_s, then ends with exit status 3. A worker that replaces a dead one "
    "begins its wait anew, so that a run that has started goes on waiting.",
    "see why it is not there; for what takes longer give --config start_timeout_s=300.",
)
