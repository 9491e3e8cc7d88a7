"""Codes of what the system lets a run make. Data."""

from typing import Final

from topology.codes.code import Code

K468: Final = Code(
    "K468",
    "Too few processes and threads",
    "A run needs some threads, and with --workers some processes. The system refuses them: the limit of this user "
    "(ulimit -u counts all of the user's processes and threads), or that of the container (pids), is reached.",
    "raise the limit, ulimit -u 4096 or the container's; end other processes of this user; or use fewer workers.",
)
