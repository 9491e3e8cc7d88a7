"""Draws the picture of a checkpoint, docs/images/checkpoint.svg, for phones and both themes.

    .venv/bin/python docs/draw_checkpoint.py

The arrows are what the coordinator of a run tells two workers, and what they answer, in that order: it is run here, on
virtual time. A test holds the file to this script. Must not hold sentences of the pages.
"""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from draw_concepts import IMAGES, WIDTH, _arrow, _box, _document, _text  # noqa: E402 - found on the path above

from acker.frontier import Frontier, Note  # noqa: E402
from topology.runtime.checkpoints.coordinator import Coordinator  # noqa: E402
from topology.testing.virtual_time.loop import run_virtual  # noqa: E402

NAME: Final = "checkpoint.svg"
COORDINATOR: Final = -1  # beside the numbers of the workers
AT: Final = {0: 72.0, COORDINATOR: WIDTH / 2, 1: WIDTH - 72.0}  # where each one's line is
NAMES: Final = {0: "worker 0", COORDINATOR: "coordinator", 1: "worker 1"}
STEPS: Final = {
    "note": "1  note",
    "barrier": "2  barrier, once all have noted",
    "snapshot": "3  snapshot",
    "commit": "4  commit",
    "decision": "5  decision, once all have committed",
}
ARROWS: Final = {
    "ask_note": ("note", "done?"),
    "noted": ("note", "this is done"),
    "send_barrier": ("barrier", "F: all that is done"),
    "prepared": ("commit", "committed"),
    "send_decided": ("decision", "decided"),
}
BOXES: Final = {
    "gather": ("snapshot", "gathers in one turn"),
    "prepare": ("commit", "writes, syncs"),
    "decide": ("decision", "writes, syncs"),
    "forget": ("decision", "forgets F"),
}
BOX_W, BOX_H, BOX_STEP = 128.0, 26.0, 40.0
ARROW_STEP: Final = 30.0
HEAD_H: Final = 56.0  # above the first step
STEP_H: Final = 30.0  # of a step's title


class Event(NamedTuple):
    """One thing that happens at a worker, or at the coordinator."""

    what: str
    worker: int


class Recorded:
    """A worker that obeys at once, and keeps what has happened."""

    def __init__(self, worker: int, events: list[Event]) -> None:
        self.worker = worker
        self.coordinator: Coordinator | None = None
        self._events = events
        self._loop = asyncio.get_running_loop()

    def ask_note(self, checkpoint: int) -> None:
        self._happens("ask_note")
        self._later("noted", checkpoint, Note((self.worker,), 0), False)

    def send_barrier(self, frontier: Frontier, *, alone: bool) -> None:
        self._happens("send_barrier")
        self._loop.call_later(0.001, self._happens, "gather")
        self._loop.call_later(0.002, self._happens, "prepare")
        self._later("prepared", frontier.checkpoint, 100, 0.001)

    def send_decided(self, checkpoint: int) -> None:
        self._happens("send_decided")
        self._loop.call_later(0.001, self._happens, "forget")
        self._later("settled", checkpoint)

    def send_given_up(self, checkpoint: int) -> None:
        raise AssertionError("nothing is given up here")

    def _happens(self, what: str) -> None:
        self._events.append(Event(what, self.worker))

    def _later(self, what: str, *answer: object) -> None:
        self._loop.call_later(0.003, self._answers, what, answer)

    def _answers(self, what: str, answer: tuple[object, ...]) -> None:
        self._happens(what)
        getattr(self.coordinator, what)(self.worker, *answer)


def events() -> list[Event]:
    """All that happens in one checkpoint of two workers, in its order."""
    found: list[Event] = []

    async def decide(checkpoint: int) -> None:
        found.append(Event("decide", COORDINATOR))

    async def take() -> None:
        workers = [Recorded(worker, found) for worker in (0, 1)]
        coordinator = Coordinator(lambda: workers, decide, first=0, every_s=0.2)
        for worker in workers:
            worker.coordinator = coordinator
        assert await coordinator.take()

    run_virtual(take(), seed=None)
    return found


def rows(happened: Sequence[Event]) -> Iterator[tuple[str, list[int]]]:
    """Yield what happens, each with all of those at whom it happens."""
    for what in dict.fromkeys(event.what for event in happened):
        yield what, [event.worker for event in happened if event.what == what]


def picture() -> str:
    """The picture, with a line per step from top to bottom."""
    parts: list[str] = []
    title: list[str] = []
    y, step = HEAD_H, ""
    for what, workers in rows(events()):
        known = ARROWS.get(what) or BOXES.get(what)
        if known is None:
            continue
        if known[0] != step:
            step = known[0]
            y += 6
            parts.append(f'<rect class="band" x="8" y="{y:g}" width="{WIDTH - 16:g}" height="22" rx="5"/>')
            parts.append(_text(16, y + 15.5, STEPS[step]))
            title.append(step)
            y += STEP_H
        for worker in workers:
            parts += _box_of(what, worker, y) if what in BOXES else _arrow_of(what, worker, y)
        y += BOX_STEP if what in BOXES else ARROW_STEP
    heads = [part for at, name in NAMES.items() for part in _box(AT[at] - 56, 12, 112, name, 30)]
    lines = [f'<path class="worker" d="M{x:g} 42V{y + 4:g}"/>' for x in AT.values()]
    told = ", ".join(title)
    made = _document(f"One checkpoint of two workers: {told}", y + 14, [*lines, *heads, *parts])
    light, dark = ".band{fill:#cfe0ea}", ".band{fill:#2e4452}"
    return made.replace("@media", f"{light}\n@media").replace("}\n}\n</style>", f"}}\n{dark}\n}}\n</style>")


def _box_of(what: str, worker: int, y: float) -> list[str]:
    text = BOXES[what][1]
    box, name = _box(AT[worker] - BOX_W / 2, y, BOX_W, text, BOX_H)
    return [box, name.replace("<text ", '<text class="small" ')]


def _arrow_of(what: str, worker: int, y: float) -> list[str]:
    text = ARROWS[what][1]
    ends = (AT[COORDINATOR], AT[worker])
    begin, end = ends if what in ("ask_note", "send_barrier", "send_decided") else ends[::-1]
    side = 4 if end > begin else -4
    middle = (begin + end) / 2
    return [
        _arrow(begin + side, y + 14, end - side, y + 14, "inside"),
        _text(middle, y + 8, text, "small", "middle"),
    ]


if __name__ == "__main__":
    (IMAGES / NAME).write_text(picture(), "utf-8")
    print(f"docs/images/{NAME}")
