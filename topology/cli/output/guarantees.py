"""The guarantees of a topology's sinks, as `kedge check --guarantees` prints them: lines for people, or one object.

Pure: takes promises, returns text that is safe for a terminal (S11). Must not know how the promises were found.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from topology.checks.guarantees import DURABILITIES, Guarantee, Mishap, Promise, Weakness
from topology.text import printable

SHORT: Final = {
    Guarantee.EXACTLY_ONCE: "exactly once",
    Guarantee.AT_LEAST_ONCE: "at least once",
    Guarantee.AT_MOST_ONCE: "at most once",
    Guarantee.NONE: "no guarantee",
}
WIDTHS: Final = (18, 18)  # of the first two columns of the table of durabilities


def lines(promises: Sequence[Promise]) -> Iterator[str]:
    """Yield a line per sink, and below it a line per weakness on the way, the weakest first. Then what each durability
    gives, if that differs."""
    if not promises:
        yield "there is no sink: nothing is read"
    for promise in promises:
        owed = f"; the weakest is {promise.weakest!r}" if promise.weakest else ""
        yield printable(f"{promise.sink}: {promise.guarantee.value}{owed}")
        yield from (f"  {printable(_said(weakness))}" for weakness in promise.weaknesses)
        if promise.variations:
            yield from _table(promise)
        elif promise.durability is not None:
            yield "  the same with each durability, when a worker dies and when power is lost"


def _table(promise: Promise) -> Iterator[str]:
    """Yield a line per durability, and the bolts whose results may come out otherwise, with what to write."""
    rows = [("durability", *(event.value for event in Mishap))]
    for durability in DURABILITIES:
        name = f"{durability} (set)" if durability == promise.durability else durability
        cells = (f"{SHORT[promise.guarantee]}{' *' * promise.varies(durability, event)}" for event in Mishap)
        rows.append((name, *cells))
    for first, second, third in rows:
        yield f"  {first:<{WIDTHS[0]}}{second:<{WIDTHS[1]}}{third}"
    yield "  * what left after the last checkpoint is computed again, and may differ:"
    for variation in promise.variations:
        yield printable(f"    {variation.component!r} {variation.why}")
        yield printable(f"      write {'; or '.join(variation.write)}")


def as_json(topology: str, promises: Sequence[Promise]) -> str:
    """Return the promises as JSON, in one line and in ASCII."""
    document = {
        "topology": topology,
        "sinks": [
            {
                "sink": promise.sink,
                "guarantee": _word(promise.guarantee),
                "weakest": promise.weakest or None,
                "weaknesses": [
                    {
                        "component": weakness.component or None,
                        "why": weakness.text,
                        "loses": weakness.loses,
                        "repeats": weakness.repeats,
                    }
                    for weakness in promise.weaknesses
                ],
                "durabilities": _durabilities(promise),
                "variations": [
                    {"component": variation.component, "why": variation.why, "write": variation.write}
                    for variation in promise.variations
                ],
            }
            for promise in promises
        ],
    }
    return json.dumps(document, ensure_ascii=True)


def _durabilities(promise: Promise) -> dict[str, Any] | None:
    """Return durability → event → the guarantee, and whether results may come out otherwise. None if nothing is kept,
    or nothing is replayed."""
    if promise.durability is None:
        return None
    guarantee = _word(promise.guarantee)
    return {
        durability: {
            event.name.lower(): {"guarantee": guarantee, "varies": promise.varies(durability, event)}
            for event in Mishap
        }
        for durability in DURABILITIES
    }


def _said(weakness: Weakness) -> str:
    return f"{weakness.component!r} {weakness.text}" if weakness.component else weakness.text


def _word(guarantee: Guarantee) -> str:
    """Return the word for programs: exactly-once, at-least-once, at-most-once or none."""
    return guarantee.name.lower().replace("_", "-")
