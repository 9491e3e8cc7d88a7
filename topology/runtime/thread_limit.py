"""The number of threads that a process of a run needs, and whether the system lets it make them (F74).

Must not know what runs in a thread.
"""

import threading
from typing import Final

from topology.codes.startup import TOO_FEW_PROCESSES
from topology.errors import StartError

OF_A_RUN: Final = 3  # threads of a run in one process: two of its store, and one that watches the loop
OF_A_WORKER: Final = 8  # of a worker process: two each of its pulse, links and store, its sink's, its end's


def check_threads(count: int) -> None:
    """Raises StartError where so many threads can't be made now. They are made, and have ended when this returns: the
    limit of a user counts what all its processes have, so no figure says how many are left."""
    over = threading.Event()
    made: list[threading.Thread] = []
    try:
        for _ in range(count):
            one = threading.Thread(target=over.wait, name="kedge trial", daemon=True)
            one.start()
            made.append(one)
    except RuntimeError:
        raise no_room(
            f"a process of this run needs {count} threads beside its first, and may make {len(made)}"
        ) from None
    finally:
        over.set()
        for thread in made:
            thread.join()


def no_room(text: str) -> StartError:
    """Return the error of a run that can't make its processes and threads, at its start."""
    return StartError(
        text,
        code=TOO_FEW_PROCESSES,
        next="raise the limit with `ulimit -u 4096` (in a container, its limit of pids), end other processes of this "
        "user, or use fewer workers",
    )
