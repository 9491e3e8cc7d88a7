"""Figures that pages tell, and the files in `benchmarks/results` that they are of.

A block of Markdown (a paragraph, an item of a list, a table) that tells figures stands below a comment that names, in
order, where each of its numbers comes from:

    <!-- figures: compare-1k/embedded.p50 - peers/identity:kedge.value state/state-disk÷state/state-none -->

    FILE/RESULT.FIELD   a result of benchmarks/results/FILE.json. Of `peers` it is WORKLOAD:PEER; of comparisons it is
                        the mode, with `+tuned` or `+defaults` where there are two. FIELD is `value` unless given.
    A÷B, A*N            a quotient of two of them; one times a number (0.001, where the page tells another unit)
    -                   a number that nothing measures: a rate that is offered, a number of cores
    none: WHY           the block tells no measured figure at all, and why it has units all the same

A number is as exact as it is written: 117,000 is anything that rounds to it at two significant digits or more.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
COMMENT = re.compile(r"<!-- figures: (.*?) -->", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.,`/#-])\d[\d,]*(?:\.\d+)?(?![\w`])")
UNIT = re.compile(
    r"(?<![\w.,`/#-])\d[\d,]*(?:\.\d+)?"
    r"(?:(?: ?(?:ms|µs|s|MB|MiB|GB|GiB|×|%|cores?|seconds?|times|bytes))\b|/s\b| ?×| ?%| \w+ (?:a|per) second)"
)
NOT_TEXT = re.compile(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->|https?://\S+", re.DOTALL)
IN_LATENCY = ("p50", "p90", "p99", "p999", "max")
IN_KILL = ("gap_ms", "recovered_ms", "replayed_ms")


@dataclass(frozen=True)
class Block:
    """Lines of a page that belong together. `sources`: what the comment above names; None where there is none."""

    line: int
    text: str
    sources: str | None

    @property
    def plain(self) -> str:
        return NOT_TEXT.sub(" ", self.text)

    @property
    def is_table(self) -> bool:
        return self.text.startswith("|")

    def numbers(self) -> list[str]:
        return NUMBER.findall(self.plain)

    def tells_figures(self) -> bool:
        """Whether some number has a unit; in a table, whether there is a number in a cell at all."""
        return bool(UNIT.search(self.plain))


def blocks(text: str) -> Iterator[Block]:
    """Of a page: its paragraphs, items of lists and tables, without fenced code."""
    sources: str | None = None
    lines: list[str] = []
    begin, fenced, at = 0, False, 0
    rows = text.split("\n")
    while at <= len(rows):
        row = rows[at] if at < len(rows) else ""
        ends = not row.strip() or row.startswith(("```", "<!--", "- ", "#")) or fenced
        if ends and lines:
            yield Block(begin, "\n".join(lines), sources)
            lines, sources = [], None
        if row.startswith("```"):
            fenced = not fenced
        elif not fenced and row.startswith("<!--"):
            comment = row
            while "-->" not in comment:
                at += 1
                comment += f" {rows[at].strip()}"
            found = COMMENT.fullmatch(comment.strip())
            sources = found.group(1) if found else sources
        elif not fenced and row.strip() and not row.startswith("#"):
            begin = begin if lines else at + 1
            lines.append(row)
        at += 1


def section(text: str, heading: str) -> str:
    """A section of a page, by its heading; line numbers stay what they are."""
    before, _, rest = text.partition(f"\n{heading}\n")
    assert rest, f"there is no section {heading!r}"
    return "\n" * (before.count("\n") + 2) + re.split(r"\n## ", rest)[0]


def wrong(page: str, text: str) -> Iterator[str]:
    """A sentence for each figure of a page that its file does not have, or that names none."""
    for block in blocks(text):
        at = f"{page}:{block.line}"
        if block.sources is None:
            if block.tells_figures():
                yield f"{at}: {UNIT.search(block.plain).group()!r} has no <!-- figures: … --> above it"  # type: ignore[union-attr]
            continue
        if block.sources.startswith("none: "):
            continue
        sources, numbers = block.sources.split(), block.numbers()
        if len(sources) != len(numbers):
            yield f"{at}: {len(numbers)} numbers ({' '.join(numbers)}), and {len(sources)} sources"
            continue
        for number, source in zip(numbers, sources, strict=True):
            if source != "-" and not is_rounded(number, value := measured(source)):
                yield f"{at}: says {number}, and {source} is {value:.6g}"
        machines = {machine(name) for source in sources for name in files_of(source)}
        if block.is_table and len(machines) > 1:
            yield f"{at}: one table mixes machines: {', '.join(sorted(machines))}"


def is_rounded(number: str, value: float) -> bool:
    """Whether the number, as it is written, is this value rounded; zeros at an integer's end may be of rounding."""
    digits = number.replace(",", "")
    if "." in digits:
        place = 10.0 ** -len(digits.partition(".")[2])
    else:
        zeros = len(digits) - len(digits.rstrip("0"))
        place = 10.0 ** max(0, min(zeros, len(digits) - 2))
    return abs(float(digits) - value) <= place / 2 * 1.000001


def measured(source: str) -> float:
    """The value that a source names. Raises LookupError where there is none."""
    if "÷" in source:
        above, below = source.split("÷")
        return measured(above) / measured(below)
    if "*" in source:
        one, factor = source.split("*")
        return measured(one) * float(factor)
    name, _, rest = source.partition("/")
    result, _, field = rest.partition(".")
    found = _field(_result(name, result), field or "value")
    if not isinstance(found, int | float):
        raise LookupError(f"{source} is {found!r}")
    return float(found)


def files_of(source: str) -> list[str]:
    return [one.partition("/")[0] for one in source.split("÷")] if source != "-" else []


@cache
def _file(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return read


def machine(name: str) -> str:
    """By its kernel, as benchmarks and comparisons both write it."""
    return str(_file(name)["machine"]["system"]).partition("-x86_64")[0].replace("Linux-", "Linux ")


def _result(name: str, called: str) -> dict[str, Any]:
    found = [one for one in _file(name).get("modes") or _file(name)["results"] if called in _names(one)]
    if len(found) != 1:
        raise LookupError(f"{len(found)} results of {name} are called {called!r}")
    return dict(found[0])


def _names(one: dict[str, Any]) -> set[str]:
    if "mode" in one:
        kind = "+defaults" if one["title"].endswith("defaults") else "+tuned"
        return {one["mode"] + kind, *([one["mode"]] if not one["settings"].get("--trigger") else [])}
    return {one["name"]} if "name" in one else {f"{one['workload']}:{one['peer']}"}


def _field(result: dict[str, Any], path: str) -> Any:
    if path in IN_LATENCY and "latency_ms" in result:
        return result["latency_ms"][path]
    return result["kill"][path] if path in IN_KILL else result[path]
