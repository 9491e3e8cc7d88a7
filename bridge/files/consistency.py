"""Check that a query's checkpoint, its results and its handed-over segments belong together, before the query resumes.
Without this check, deleted files would silently lose results.

Knows a query's folder and its checkpoint's log of offsets; must not know a session.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bridge.files.input import StreamInput
from bridge.files.query import Epoch, QueryFolder
from topology.codes.code import FRESH

ADVICE: Final = f"restore the state directory from one copy; or {FRESH}"


def disagreement(folder: QueryFolder, epoch: Epoch, inputs: Sequence[str]) -> str:
    """Return what is missing, as one sentence. Return an empty text if nothing is missing, which is always so before
    the present epoch has begun. Raises what a damaged `kept` of a hand-over raises."""
    checkpoint = folder.checkpoint(epoch)
    offsets = _newest(checkpoint)
    for name in inputs:
        stream, begin = StreamInput(folder.input(name)), epoch.begin.get(name, {})
        if not offsets and any(stream.of(task).done() > begin.get(task, 0) for task in stream.tasks()):
            return f"{checkpoint} is empty, although segments of {name!r} were read: {ADVICE}"
        for offset in offsets:
            if offset.get("input") == name and (missing := _missing(stream, offset["next"])) is not None:
                return f"{missing} is missing, but the checkpoint has read it or is about to: {ADVICE}"
    if not offsets and any(number >= epoch.base for number in folder.batches()):
        return f"{checkpoint} is empty, although there are results of it: {ADVICE}"
    return ""


def begun_to_read(folder: QueryFolder, name: str) -> dict[str, int]:
    """Return the number of segments per task that the present checkpoint has read of an input, or is about to read. The
    stream cannot end before these. Raises what a damaged `epoch` raises."""
    if (epoch := folder.epoch()) is None:
        return {}
    found = {**epoch.begin.get(name, {})}
    try:
        offsets = _newest(folder.checkpoint(epoch))
    except (OSError, ValueError):  # another epoch just begins, or the file is damaged, which Spark will report
        return found
    for offset in offsets:
        if offset.get("input") == name:
            found |= {task: max(number, found.get(task, 0)) for task, number in offset["next"].items()}
    return found


def missing_epoch(folder: QueryFolder) -> str:
    """Return a sentence about files of a query that has no epoch. Return an empty text if there are none, so that the
    query can start."""
    left = [*folder.folder.glob("checkpoint/*/offsets/*"), *map(folder.batch, folder.batches())]
    if not left or folder.has_begun:
        return ""
    return f"{folder.folder / 'epoch'} is missing, although the query has left files, such as {left[0]}: {ADVICE}"


def _newest(checkpoint: Path) -> list[dict[str, Any]]:
    """Return the end of the last batch that was begun, one value per reader. Empty if there was no batch."""
    numbers = [int(path.name) for path in checkpoint.glob("offsets/*") if path.name.isdecimal()]
    if not numbers:
        return []
    lines = (checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith('{"input"')]


def _missing(stream: StreamInput, until: dict[str, int]) -> Path | None:
    """Return the first segment that a reader may want and that is missing. A segment is only removed when all readers
    are done with it."""
    for task, number in until.items():
        segments = stream.of(task)
        for needed in range(max(segments.done(), segments.kept().read), number):
            if not segments.has(needed):
                return segments.path(needed)
    return None
