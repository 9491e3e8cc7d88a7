"""What the sinks of a topology get, as `kedge check --guarantees` shows it: lines for people, or one JSON object.

Pure: promises in, text out, safe for a terminal (S11). Must not know how they were found.
"""

import json
from collections.abc import Iterator, Sequence

from topology.checks.guarantees import Guarantee, Promise, Weakness
from topology.text import printable


def lines(promises: Sequence[Promise]) -> Iterator[str]:
    """One for each sink, and one below it for each weakness on the way, the weakest first."""
    if not promises:
        yield "there is no sink: nothing is read"
    for one in promises:
        owed = f"; the weakest is {one.weakest!r}" if one.weakest else ""
        yield printable(f"{one.sink}: {one.guarantee.value}{owed}")
        yield from (f"  {printable(_said(weakness))}" for weakness in one.weaknesses)


def as_json(topology: str, promises: Sequence[Promise]) -> str:
    """In one line, and in ASCII."""
    told = {
        "topology": topology,
        "sinks": [
            {
                "sink": one.sink,
                "guarantee": _word(one.guarantee),
                "weakest": one.weakest or None,
                "weaknesses": [
                    {
                        "component": weakness.component or None,
                        "why": weakness.text,
                        "loses": weakness.loses,
                        "repeats": weakness.repeats,
                    }
                    for weakness in one.weaknesses
                ],
            }
            for one in promises
        ],
    }
    return json.dumps(told, ensure_ascii=True)


def _said(weakness: Weakness) -> str:
    return f"{weakness.component!r} {weakness.text}" if weakness.component else weakness.text


def _word(guarantee: Guarantee) -> str:
    """For machines: exactly-once, at-least-once, at-most-once or none."""
    return guarantee.name.lower().replace("_", "-")
