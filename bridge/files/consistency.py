"""Whether what a query's checkpoint has read, what it has given, and what was handed over belong together, before the
query goes on: files that somebody has deleted would else be results that are missing, with nothing said.

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
    """What is missing, in a sentence; empty where all is there. Before the present epoch has begun, all is. Raises what
    a damaged `kept` of a hand-over raises."""
    checkpoint = folder.checkpoint(epoch)
    offsets = _newest(checkpoint)
    for name in inputs:
        stream, begin = StreamInput(folder.input(name)), epoch.begin.get(name, {})
        if not offsets and any(stream.of(task).done() > begin.get(task, 0) for task in stream.tasks()):
            return f"{checkpoint} is empty, and what was read of {name!r} until now is done: {ADVICE}"
        for one in offsets:
            if one.get("input") == name and (missing := _missing(stream, one["next"])) is not None:
                return f"{missing} is missing, and the checkpoint has read it, or is about to: {ADVICE}"
    if not offsets and any(number >= epoch.base for number in folder.batches()):
        return f"{checkpoint} is empty, and there are results of it: {ADVICE}"
    return ""


def begun_to_read(folder: QueryFolder, name: str) -> dict[str, int]:
    """Up to which segment the present checkpoint has read an input, or is about to, task by task: what was handed over
    can't end before. Raises what a damaged `epoch` raises."""
    if (epoch := folder.epoch()) is None:
        return {}
    found = {**epoch.begin.get(name, {})}
    try:
        offsets = _newest(folder.checkpoint(epoch))
    except (OSError, ValueError):  # another epoch begins at this moment; or it is damaged, as Spark will say
        return found
    for one in offsets:
        if one.get("input") == name:
            found |= {task: max(number, found.get(task, 0)) for task, number in one["next"].items()}
    return found


def unbegun(folder: QueryFolder) -> str:
    """What is there of a query without an epoch, in a sentence; empty where there is nothing: it begins."""
    of_it = [*folder.folder.glob("checkpoint/*/offsets/*"), *map(folder.batch, folder.batches())]
    if not of_it or folder.has_begun:
        return ""
    return f"{folder.folder / 'epoch'} is missing, and what has come of it is there, {of_it[0]} for one: {ADVICE}"


def _newest(checkpoint: Path) -> list[dict[str, Any]]:
    """Where the last batch ends that was begun, a value for each reader; nothing before there was one."""
    numbers = [int(path.name) for path in checkpoint.glob("offsets/*") if path.name.isdecimal()]
    if not numbers:
        return []
    lines = (checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith('{"input"')]


def _missing(stream: StreamInput, until: dict[str, int]) -> Path | None:
    """The first segment that a reader may want, and that is not there: none is removed that not all are done with."""
    for task, number in until.items():
        segments = stream.of(task)
        for one in range(max(segments.done(), segments.kept().read), number):
            if not segments.has(one):
                return segments.path(one)
    return None
