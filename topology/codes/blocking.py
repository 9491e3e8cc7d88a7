"""Codes of what blocks the event loop. Data."""

from typing import Final

from topology.codes.code import Code

K566: Final = Code(
    "K566",
    "The event loop is blocked",
    "A bolt or spout computes or waits for long without `await`, so that nothing else of the process runs: no other "
    "bolt, no ack, no view of the run. The line names the component and where it stands. Time in which the loop did "
    "not turn counts for no timeout. A run of one process can't name what keeps Python's lock until it returns, a long "
    "regular expression say.",
    "set `blocking = True` on the bolt, which runs its `process` in a thread; or write it as async def, and await what "
    "it waits for.",
)
