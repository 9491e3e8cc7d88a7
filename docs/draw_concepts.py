"""Draws the pictures of docs/concepts.md and docs/time.md into docs/images, as SVG for phones and both themes.

    .venv/bin/python docs/draw_concepts.py

What goes where is asked of the groupings and of the plan themselves, so no picture shows what Kedge would not do; a
test holds the files to this script. Must not hold sentences of the pages.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from math import hypot
from pathlib import Path
from random import Random
from typing import Any, Final
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from bolts import Print  # noqa: E402 - found on the path above
from spouts import Items  # noqa: E402
from topology import Bolt, Grouping, Record, Topology  # noqa: E402
from topology.groupings import (  # noqa: E402
    SLOTS,
    All,
    Custom,
    Fields,
    Global,
    LocalOrShuffle,
    PartialKey,
    Shuffle,
    key_bytes,
    slot_of,
    task_of_slot,
)
from topology.plan import plan  # noqa: E402

IMAGES: Final = HERE / "images"
BEGINNINGS: Final = ("concepts-", "time-")  # of the names of all files, by page
WORDS: Final = ("to", "be", "or", "not", "to", "be")
HUES: Final = {"to": 0, "be": 1, "or": 2, "not": 3}
WIDTH: Final = 420.0
CHIP_W, CHIP_H = 36.0, 20.0
CHIP_STEP: Final = 27.0  # from one emitted tuple to the next
TASK_X, TASK_W, TASK_H, TASK_STEP = 190.0, 214.0, 46.0, 58.0
EMIT_X: Final = 76.0
IN_A_ROW: Final = 3  # tuples, in a task
TOP: Final = 14.0

STYLE: Final = """
text{font:13px system-ui,"DejaVu Sans",sans-serif;fill:#1d2730}
.small{font-size:11.5px;fill:#51606d}.word{font-size:12px;fill:#fff;font-weight:600}
.code{font:12px ui-monospace,"DejaVu Sans Mono",monospace}
.task{fill:#e3eef4;stroke:#0b5c7a;stroke-width:1.5}.worker{fill:none;stroke:#6b7781;stroke-dasharray:5 4}
.way{fill:none;stroke-width:1.8}.link{stroke:#b3470b;stroke-dasharray:6 3}.inside{stroke:#0b5c7a}
.tip{fill:none;stroke-width:1.8;stroke-dasharray:none}
.k0{fill:#0b5c7a}.k1{fill:#b3470b}.k2{fill:#3f6b1d}.k3{fill:#7a3d8f}
.s0{stroke:#0b5c7a}.s1{stroke:#b3470b}.s2{stroke:#3f6b1d}.s3{stroke:#7a3d8f}
.part0{fill:#e3eef4}.part1{fill:#cfe0ea}.part{stroke:#0b5c7a}
@media (prefers-color-scheme: dark){
text{fill:#dfe6ec}.small{fill:#a3b1bd}.word{fill:#10151a}
.task{fill:#22323c;stroke:#7cc4e0}.worker{stroke:#93a0ab}.link{stroke:#ff9d5c}.inside{stroke:#7cc4e0}
.k0{fill:#7cc4e0}.k1{fill:#ff9d5c}.k2{fill:#a5d17f}.k3{fill:#d5a6e6}
.s0{stroke:#7cc4e0}.s1{stroke:#ff9d5c}.s2{stroke:#a5d17f}.s3{stroke:#d5a6e6}
.part0{fill:#22323c}.part1{fill:#2e4452}.part{stroke:#7cc4e0}
}
"""


class Word(Record):
    """The record that the tuples of the pictures carry."""

    word: str


class Split(Bolt):
    """Stands for the bolt of the page."""

    def process(self, record: Word) -> Iterator[Word]:
        yield record


class Watched(Grouping):
    """The last task is for the word "not" alone; other words go by their first letter."""

    def choose(self, record: Word, tasks: int) -> Sequence[int]:
        return [tasks - 1] if record.word == "not" else [ord(record.word[0]) % (tasks - 1)]


Choose = Callable[[str, int], Iterable[int]]  # a word, and how many came before it → the tasks that get it


def groupings() -> dict[str, str]:
    """Name → picture, of each grouping."""

    def one(grouping: Any, local: Sequence[int] = ()) -> Choose:
        chooser = grouping.one(3, local, Random(4))
        return lambda word, number: [chooser(Word(word), 0)]

    def many(grouping: Any) -> Choose:
        chooser = grouping.many(3)
        return lambda word, number: chooser(Word(word))

    return {
        "shuffle": _grouping("shuffle()", one(Shuffle())),
        "local-or-shuffle": _grouping("local_or_shuffle()", one(LocalOrShuffle(), (0, 1)), WORDS[:4], local=2),
        "fields": _grouping('fields("word")', one(Fields(("word",)))),
        "partial-key": _grouping('partial_key("word")', one(PartialKey("word"))),
        "all": _grouping("all()", many(All()), WORDS[:2]),
        "global": _grouping("global_()", one(Global())),
        "direct": _grouping("direct()", lambda word, number: [(0, 2, 2, 1)[number]], WORDS[:4], says="task={}"),
        "custom": _grouping("custom(Watched())", many(Custom(Watched()))),
    }


def _grouping(call: str, choose: Choose, words: Sequence[str] = WORDS, *, local: int = 0, says: str = "") -> str:
    """Tuples on the left, in the order in which one task emits them; on the right three tasks with what each gets.

    `local`: so many of the tasks, the first ones, are in the emitter's worker; 0 shows no workers. `says`: what the
    emitter names beside a tuple.
    """
    heights = [TOP + 26 + TASK_STEP * task + (26 if local and task >= local else 0) for task in range(3)]
    got: list[list[str]] = [[], [], []]
    ways, chips = [], []
    top = TOP + 28 if local else (heights[0] + heights[2] + TASK_H - CHIP_STEP * len(words)) / 2
    for number, word in enumerate(words):
        y = top + CHIP_STEP * number + CHIP_H / 2
        targets = list(choose(word, number))
        chips += _chip(EMIT_X, y, word)
        beside = says.format(*targets) if says else str(number + 1)
        chips.append(_text(EMIT_X - 8, y + 4, beside, "code" if says else "small", "end"))
        for task in targets:
            got[task].append(word)
            ways.append(_way(EMIT_X + CHIP_W, y, TASK_X, heights[task] + TASK_H / 2, HUES[word]))
    for y, words_of in zip(heights, got, strict=True):
        for number, word in enumerate(words_of):
            row = (number // IN_A_ROW - 0.5) * (CHIP_H + 2) if len(words_of) > IN_A_ROW else 0.0
            chips += _chip(TASK_X + 62 + (CHIP_W + 4) * (number % IN_A_ROW), y + TASK_H / 2 + row, word)
    boxes: list[str] = []
    for task, y in enumerate(heights):
        boxes.append(f'<rect class="task" x="{TASK_X:g}" y="{y:g}" width="{TASK_W:g}" height="{TASK_H:g}" rx="6"/>')
        boxes.append(_text(TASK_X + 10, y + TASK_H / 2 + 4, f"task {task}", "small"))
    if local:
        boxes += _frame("worker 0", 6, TOP, heights[local - 1] + TASK_H + 8 - TOP)
        boxes += _frame("worker 1", 6, heights[local] - 24, TASK_H + 32)
    told = "; ".join(f"task {task} gets {', '.join(words_of) or 'nothing'}" for task, words_of in enumerate(got))
    height = heights[2] + TASK_H + (16 if local else 10)
    head = [] if local else [_text(10, TOP + 8, f"words.{call}", "code")]
    return _document(f"{call}: {told}", height, [*head, *boxes, *ways, *chips])


def tasks() -> str:
    """The components of the page's example as they are declared, and their tasks on two workers."""
    topology = Topology("words")
    sentences = topology.spout("sentences", Items([Word("to")]))
    split = topology.bolt("split", Split(), sentences.shuffle(), tasks=2)
    topology.bolt("count", Print(), split.fields("word"), tasks=2)
    topology.validate()
    placed = plan(topology, 2).placement
    rows = ["sentences", "split", "count"]
    parts = [_text(10, 22, "declared")]
    for number, name in enumerate(rows):
        x = 10 + 140 * number
        many = sum(one == name for one, _ in placed)
        parts += _box(x, 34, 118, f"{name} ×{many}")
        if number:
            parts.append(_arrow(x - 22, 50, x, 50, "inside"))
    parts.append(_text(10, 108, "running, with --workers 2"))
    places: dict[tuple[str, int], tuple[float, float]] = {}
    for worker in (0, 1):
        parts += _frame(f"worker {worker}", 10 + 208 * worker, 120, 218, 192)
    for row, name in enumerate(rows):
        for (one, task), worker in placed.items():
            if one == name:
                places[name, task] = (26 + 208 * worker, 148 + 66 * row)
    for above, below in pairwise(rows):
        for (one, task), (x, y) in places.items():
            for (other, to), (to_x, to_y) in places.items():
                if (one, other) == (above, below):
                    kind = "inside" if placed[one, task] == placed[other, to] else "link"
                    parts.append(_arrow(x + 80, y + 34, to_x + 80, to_y, kind))
    for (name, task), (x, y) in places.items():
        parts += _box(x, y, 160, f"{name}, task {task}", 34)
    parts.append(f'<path class="way inside" d="M10 362h34"/>{_text(52, 366, "in memory", "small")}')
    parts.append(
        f'<path class="way link" d="M150 362h34"/>{_text(192, 366, "over a link between the workers", "small")}'
    )
    return _document("Three components as declared, and their five tasks on two workers", 380, parts)


def slots() -> str:
    """The slots of four keys, and whose they are of three tasks and of four."""
    left, wide = 20.0, WIDTH - 40
    parts = [_text(left, 20, "key → slot", "small")]
    for number, word in enumerate(dict.fromkeys(WORDS)):
        slot = slot_of(key_bytes(word))
        x, at = left + 14 + 98 * number, left + wide * slot / SLOTS
        parts.append(_way_down(x + CHIP_W / 2, 50, at, 92, HUES[word]))
        parts.append(f'<path class="way s{HUES[word]}" d="M{at:.1f} 92V206"/>')
        parts += _chip(x, 40, word)
        parts.append(_text(x + CHIP_W + 4, 44, str(slot), "code"))
    for row, many in enumerate((3, 4)):
        y = 112 + 64 * row
        parts.append(_text(WIDTH - 20, y - 4, f"tasks={many}", "code", "end"))
        begins = [min(slot for slot in range(SLOTS) if task_of_slot(slot, many) == task) for task in range(many)]
        for task, (begin, end) in enumerate(zip(begins, [*begins[1:], SLOTS], strict=True)):
            x, to = left + wide * begin / SLOTS, left + wide * end / SLOTS
            parts.append(
                f'<rect class="part part{task % 2}" x="{x:.1f}" y="{y}" width="{to - x:.1f}" height="30" '
                'fill-opacity="0.75"/>'
            )
            parts.append(_text((x + to) / 2, y + 19, f"task {task}", "small", "middle"))
    parts += [_text(left, 224, "slot 0", "small"), _text(WIDTH - 20, 224, f"slot {SLOTS - 1:,}", "small", "end")]
    return _document("Four keys, their slots of 1,024, and the tasks that own these", 234, parts)


def late() -> str:
    """Four visits by event time and by arrival, and the minute that each belongs to: the last one to arrive is late."""
    left, wide, seconds = 30.0, WIDTH - 60, 90.0
    visits = ((5, 9), (41, 45), (70, 73), (59, 84))  # of the event, and of its arrival
    parts = [_text(left - 20, 22, "event time"), _text(left - 20, 166, "processing time: when Kedge reads it")]

    def x(second: float) -> float:
        return left + wide * second / seconds

    for minute, (begin, end) in enumerate(((0, 60), (60, 90))):
        size = f'width="{x(end) - x(begin):g}" height="28"'
        parts.append(f'<rect class="part part{minute}" x="{x(begin):g}" y="32" {size}/>')
        parts.append(_text((x(begin) + x(end)) / 2, 50, f"minute 12:0{minute}", "small", "middle"))
    parts.append(f'<path class="way inside" d="M{left:g} 140H{left + wide:g}"/>')
    for number, (event, arrival) in enumerate(visits):
        hue = int(number == len(visits) - 1)
        parts.append(f'<path class="way s{hue}" d="M{x(event):.1f} 60L{x(arrival):.1f} 140"/>')
        parts.append(f'<circle class="k{hue}" cx="{x(event):.1f}" cy="60" r="5"/>')
        parts.append(f'<circle class="k{hue}" cx="{x(arrival):.1f}" cy="140" r="5"/>')
    parts.append(_text(x(75), 94, "late", "", "start"))
    return _document("Four visits; the one of 12:00:59 arrives after one of 12:01:10", 178, parts)


def _chip(x: float, y: float, word: str) -> list[str]:
    """A tuple, by its middle's height."""
    place = f'x="{x:g}" y="{y - CHIP_H / 2:g}" width="{CHIP_W:g}" height="{CHIP_H:g}"'
    return [f'<rect class="k{HUES[word]}" {place} rx="10"/>', _text(x + CHIP_W / 2, y + 4, word, "word", "middle")]


def _box(x: float, y: float, width: float, name: str, height: float = 32) -> list[str]:
    rect = f'<rect class="task" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>'
    return [rect, _text(x + width / 2, y + height / 2 + 4, name, "", "middle")]


def _frame(name: str, x: float, y: float, height: float, width: float = WIDTH - 12) -> list[str]:
    rect = f'<rect class="worker" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8"/>'
    return [rect, _text(x + 10, y + 17, name, "small")]


def _way(x: float, y: float, to_x: float, to_y: float, hue: int) -> str:
    middle = (x + to_x) / 2
    return f'<path class="way s{hue}" d="M{x:g} {y:g}C{middle:g} {y:g} {middle:g} {to_y:g} {to_x:g} {to_y:g}"/>'


def _way_down(x: float, y: float, to_x: float, to_y: float, hue: int) -> str:
    middle = (y + to_y) / 2
    return f'<path class="way s{hue}" d="M{x:g} {y:g}C{x:g} {middle:g} {to_x:.1f} {middle:g} {to_x:.1f} {to_y:g}"/>'


def _arrow(x: float, y: float, to_x: float, to_y: float, kind: str) -> str:
    long = hypot(to_x - x, to_y - y)
    along, aside = ((to_x - x) / long, (to_y - y) / long), (-(to_y - y) / long, (to_x - x) / long)
    wings = [
        f"{to_x - 9 * along[0] + side * 4 * aside[0]:.1f} {to_y - 9 * along[1] + side * 4 * aside[1]:.1f}"
        for side in (1, -1)
    ]
    tip = f'<path class="{kind} tip" d="M{wings[0]}L{to_x:g} {to_y:g}L{wings[1]}"/>'
    return f'<path class="way {kind}" d="M{x:g} {y:g}L{to_x:g} {to_y:g}"/>{tip}'


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    known = f' class="{kind}"' if kind else ""
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text{known} x="{x:g}" y="{y:g}"{where}>{escape(words)}</text>'


def _document(title: str, height: float, parts: Iterable[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" width="{WIDTH:g}" '
        f'height="{height:g}" role="img">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def pictures() -> dict[str, str]:
    """Name of the file → its content."""
    concepts, time = BEGINNINGS
    made = {"tasks": tasks(), "slots": slots(), **groupings()}
    return {f"{concepts}{name}.svg": content for name, content in made.items()} | {f"{time}late.svg": late()}


if __name__ == "__main__":
    for name, content in pictures().items():
        (IMAGES / name).write_text(content, "utf-8")
        print(f"docs/images/{name}")
