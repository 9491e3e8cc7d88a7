"""The guarantees of a topology's sinks, as `kedge check --guarantees` prints them: lines for people, or one object.

Pure: takes promises, returns text that is safe for a terminal (S11). Must not know how the promises were found.
"""

import json
from collections.abc import Iterator, Sequence

from topology.checks.guarantees import Guarantee, Promise, Weakness
from topology.text import printable


def lines(promises: Sequence[Promise]) -> Iterator[str]:
    """Yield a line per sink, and below it a line per weakness on the way, the weakest first."""
    if not promises:
        yield "there is no sink: nothing is read"
    for promise in promises:
        owed = f"; the weakest is {promise.weakest!r}" if promise.weakest else ""
        yield printable(f"{promise.sink}: {promise.guarantee.value}{owed}")
        yield from (f"  {printable(_said(weakness))}" for weakness in promise.weaknesses)


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
            }
            for promise in promises
        ],
    }
    return json.dumps(document, ensure_ascii=True)


def _said(weakness: Weakness) -> str:
    return f"{weakness.component!r} {weakness.text}" if weakness.component else weakness.text


def _word(guarantee: Guarantee) -> str:
    """Return the word for programs: exactly-once, at-least-once, at-most-once or none."""
    return guarantee.name.lower().replace("_", "-")
