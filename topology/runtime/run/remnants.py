"""End workers of an earlier run that are left on a state directory. The run that has the directory locked does so.

They are stopped or frozen, so they can't notice that their supervisor is gone, and the guard that would have ended them
is gone too. A process is such a worker if all of this holds: it has the lock of a store in a directory that is ours
alone, its command line is a worker's, it belongs to this user, and its parent is not the supervisor that it names. Only
Linux reports locks; elsewhere the error (K436) stays. Must not know what is in a store.
"""

import contextlib
import os
import select
import signal
from pathlib import Path
from typing import Final

from topology.filesystem.lock_holders import holders
from topology.runtime.os_process.worker_command import supervisor_of
from topology.storage.directory.state_dir import StateDir

END_S: Final = 5.0  # seconds that a killed worker may take; its open files are free when it is gone


def ended(state: StateDir) -> list[str]:
    """End the workers that have a store of this directory, which is locked by us. Return a sentence for each. Blocks
    until they are gone, END_S at most for each."""
    if state.files.vfs:  # a simulated disk: no process has it open
        return []
    sentences = []
    for name in sorted(state.known_files):
        for pid in holders(state.path / name):
            if _end(pid, state.path / name):
                who = f"worker process {pid} of an earlier run, whose supervisor is gone"
                sentences.append(f"{who}, still had {name} open: it is killed")
    return sentences


def _end(pid: int, store: Path) -> bool:
    """Kill a process if it is such a worker; return True if it is gone. The descriptor names this process only, not a
    later one with the same number. So what is checked after it was opened is true of the process that is killed."""
    with contextlib.suppress(OSError):
        process = os.pidfd_open(pid)
        try:
            if pid not in holders(store) or not _is_orphan(pid):
                return False
            signal.pidfd_send_signal(process, signal.SIGKILL)
            poll = select.poll()
            poll.register(process, select.POLLIN)
            return bool(poll.poll(round(END_S * 1000)))
        finally:
            os.close(process)
    return False


def _is_orphan(pid: int) -> bool:
    entry = Path(f"/proc/{pid}")
    if entry.stat().st_uid != os.geteuid():
        return False
    arguments = (entry / "cmdline").read_bytes().decode("utf-8", "surrogateescape").split("\0")[:-1]
    parent = int((entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
    supervisor = supervisor_of(arguments)
    return supervisor is not None and supervisor != parent
