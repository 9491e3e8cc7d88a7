"""Checks of `--workers` and `--links`, which several commands have. Must not know which command asks."""

from typing import Final

from topology.cli.command import given_as
from topology.codes.command_line import INVALID_LINKS, INVALID_WORKER_COUNT
from topology.errors import ConfigurationError
from topology.plan import WORKERS_MAX

LINKS: Final = "ipc"


def check_processes(workers: int | None, links: str | None) -> None:
    """Raise ConfigurationError for an invalid number of workers, or invalid links."""
    if workers is not None and not 1 <= workers <= WORKERS_MAX:
        raise ConfigurationError(
            f"{given_as('--workers')} takes a whole number from 1 to {WORKERS_MAX:,}, not {workers}",
            code=INVALID_WORKER_COUNT,
        )
    if links is None or (links == LINKS and workers is not None):
        return
    if workers is None:
        raise ConfigurationError(
            f"{given_as('--links')} is for runs on several processes", code=INVALID_LINKS, next="pass --workers N too"
        )
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(links)
        good = parts.scheme == "tcp" and parts.hostname and links == f"tcp://{parts.netloc}" and parts.port != 0
    except ValueError:  # the port is invalid
        good = False
    if not good:
        raise ConfigurationError(
            f"{given_as('--links')} takes ipc, tcp://HOST or tcp://HOST:PORT, not {links!r}", code=INVALID_LINKS
        )
