"""Processes beside a measurement: their work does not count as that of the measured process."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

WAIT_S: Final = 30.0


@contextmanager
def beside(*command: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a command until the end of the block."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def python(code: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs this code."""
    return (sys.executable, "-c", code, *arguments)


async def listening(port: int) -> None:
    """Wait until a port of this machine takes connections."""
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(OSError):
                (await asyncio.open_connection("127.0.0.1", port))[1].close()
                return
            await asyncio.sleep(0.02)
