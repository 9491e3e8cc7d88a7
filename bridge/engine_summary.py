"""What a sink that has run in Spark's processes says at the end of a run, of all of them together.

Each of those processes had a sink of its own, and may be gone. So the driver opens one more copy, which is given the
counts of all, the classes whose records they had, and nothing else; it knows its server as any of them does. A sink
that counts nothing by these names would speak of that copy alone, and so says nothing. Knows no Spark.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bridge.engine_parts import Routing
from bridge.engine_raised import Raised
from bridge.engine_sinks import TOLD, Sinks
from topology.errors import KedgeError

OF: Final = "of "  # before the name of a class: how many of its records a sink was given

Counts = Mapping[tuple[str, str], int]


def counts_itself(sink: object) -> bool:
    """Whether a sink has the counts that can be added up."""
    return all(hasattr(sink, what) for what in TOLD)


def with_counts(routing: Routing, counts: Counts) -> Callable[[str, Any], None]:
    """What makes a sink that is not open yet one that has had all of this."""

    def prepare(name: str, sink: Any) -> None:
        for what in TOLD:
            setattr(sink, what, counts.get((name, what), 0))
        if hasattr(sink, "records"):  # the classes whose tables it knows when it opens
            reads = [one.cls for one in routing.subscriptions if one.subscriber == name]
            sink.records = tuple(dict.fromkeys(cls for cls in reads if counts.get((name, f"{OF}{cls.__name__}"))))

    return prepare


def told_of_all(
    name: str, counts: Counts, made: Callable[[], Sinks], tell: Callable[[Sequence[Raised]], None]
) -> list[str]:
    """The lines. `made` gives its copy, not yet open; where that can't be opened now, the counts and why. `tell` is
    called with all that the copy has raised, which ends nothing."""
    sinks = made()
    try:
        sinks.open()
        said, raised = sinks.close()
        tell(raised)
        return said.get(name, [])
    except (KedgeError, Raised) as error:
        if isinstance(error, Raised):
            tell([error])
        stored, known = (counts.get((name, what), 0) for what in TOLD)
        return [f"{stored:,} stored, {known:,} known already", f"where, can't be told now: {error}"]
    finally:
        sinks.end()
