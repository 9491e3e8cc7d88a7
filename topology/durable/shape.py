"""The shape of a topology: what must be as it was, where a run goes on from what an earlier one has left (B11).

Names, record classes and their fields, who reads whom and by which grouping, tasks, state: whatever identities and keys
are made of. Not the workers, nor the code of bolts, which nobody can compare. Pure: a plan in, a value and sentences
out. Must not know where the value is kept, nor who tells the sentences.
"""

import inspect
import json
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypedDict

import msgspec

from topology.annotations import argument
from topology.codes.starting import K440, K441
from topology.components import State
from topology.errors import StartError
from topology.graph import Declared
from topology.groupings import All, Custom
from topology.plan import Plan
from topology.records import Record, field_types, schema

FORMAT: Final = 1
TYPE_MAX: Final = 60  # characters of a type in a sentence
TOLD_MAX: Final = 10  # changes that are told one by one


class Component(TypedDict):
    """One spout or bolt. `state` is the type of its state, and empty where it has none."""

    kind: str
    how: str
    tasks: int
    state: str
    streams: dict[str, dict[str, str]]  # record class → field → type, in order
    reads: dict[str, "Read"]  # "emitter[class]" → how


class Read(TypedDict):
    """How one stream is read. `copies`: whether one emission may go to several tasks, each with an identity."""

    grouping: str
    copies: bool


class Shape(TypedDict):
    """A whole topology. JSON takes it as it is."""

    format: int
    components: dict[str, Component]


@dataclass(frozen=True)
class Change:
    """One difference, in a sentence's words. `harmless`: what was read before, and is not done, gets the identities and
    keys that it had, so that sinks and states know it again."""

    text: str
    harmless: bool = False


def shape_of(plan: Plan) -> Shape:
    """The shape of what a plan runs."""
    components: dict[str, Component] = {
        name: {
            "kind": one.kind,
            "how": one.shape,
            "tasks": one.tasks,
            "state": _state(one),
            "streams": {cls.__name__: _fields(cls) for cls in one.streams},
            "reads": {},
        }
        for name, one in plan.components.items()
    }
    for read in plan.subscriptions:
        components[read.subscriber]["reads"][f"{read.emitter}[{read.cls.__name__}]"] = {
            "grouping": str(read.grouping),
            "copies": isinstance(read.grouping, All | Custom),
        }
    return {"format": FORMAT, "components": components}


def text_of(shape: Shape) -> str:
    """As it is kept."""
    return json.dumps(shape, separators=(",", ":"))


def agreed(kept: str | None, clean: bool, new: Shape, *, accept_duplicates: bool = False) -> list[str]:
    """Whether a topology of this shape may go on from what a run of the shape `kept` has left: a sentence where it may
    and something has changed, nothing where nothing has. `clean`: all that was read had been done when that run ended.

    Raises StartError, with every change, where it may not: results would be stored again, or keys begin anew.
    """
    if kept is None:
        return []
    before = _read(kept)
    if before is None:
        text = "the last run's topology was noted by another version of Kedge, and can't be compared"
        if clean:
            return [f"{text}; that run had done all that it read"]
        if accept_duplicates:
            return [f"{text}: what was in flight may be stored twice (--accept-duplicates)"]
        raise StartError(text, code=K441)
    found = changes(before, new)
    harmful = [one for one in found if not one.harmless]
    if not found:
        return []
    listed = _listed([one.text for one in found])
    if not harmful:
        return [f"the topology has changed, and what was in flight fits into it: {listed}"]
    if clean:
        return [f"the topology has changed since the last run, which had done all that it read: {listed}"]
    if accept_duplicates:
        return [f"the topology has changed, and what was in flight may be stored twice (--accept-duplicates): {listed}"]
    listed = _listed([one.text for one in harmful])
    text = f"the topology has changed since the last run, which was not done with all that it had read: {listed}"
    raise StartError(text, code=K440)


def changes(old: Shape, new: Shape) -> list[Change]:
    """What differs, in the order of the old topology, and then what is new."""
    before, after = old["components"], new["components"]
    found: list[Change] = []
    told: set[str] = set()  # a class that several components emit changes once
    for name, was in before.items():
        if name not in after:
            found.append(Change(f"{was['kind']} {name!r} is gone"))
            continue
        found += [one for one in _component(name, was, after[name]) if one.text not in told]
        told.update(one.text for one in found)
    return [
        *found,
        *(Change(f"{one['kind']} {name!r} is new", True) for name, one in after.items() if name not in before),
    ]


def _component(name: str, was: Component, now: Component) -> Iterator[Change]:
    """One that is in both. The number of tasks decides over keys where there is state, and over identities where every
    task gets a copy; elsewhere an identity is the same wherever it goes (B1), and so are positions of partitions."""
    if was["kind"] != now["kind"]:
        yield Change(f"{name!r} is a {now['kind']} in place of a {was['kind']}")
        return
    keyed = "state" in (was["how"], now["how"])
    copied = any(one["copies"] for part in (was, now) for one in part["reads"].values())
    if was["tasks"] != now["tasks"]:
        count = f"{now['tasks']} task{'s' * (now['tasks'] != 1)}"
        yield Change(f"{name!r} has {count} in place of {was['tasks']}", not keyed and not copied)
    if was["how"] != now["how"]:
        yield Change(f"{name!r} has {_method(now)} in place of {_method(was)}")
    elif was["state"] != now["state"]:
        yield Change(f"the state of {name!r} is {_cut(now['state'])} in place of {_cut(was['state'])}")
    yield from _streams(name, was["streams"], now["streams"])
    yield from _reads(name, was["reads"], now["reads"], keyed)


def _streams(name: str, was: Mapping[str, dict[str, str]], now: Mapping[str, dict[str, str]]) -> Iterator[Change]:
    for cls, fields in was.items():
        if cls in now:
            yield from _field_changes(cls, fields, now[cls])
        else:
            yield Change(f"{name!r} emits no {cls} any more")
    yield from (Change(f"{name!r} emits {cls} besides", True) for cls in now if cls not in was)


def _field_changes(cls: str, was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Change]:
    for field, kind in was.items():
        if field not in now:
            yield Change(f"field {field!r} of {cls} is gone")
        elif now[field] != kind:
            yield Change(f"field {field!r} of {cls} is {_cut(now[field])} in place of {_cut(kind)}")
    yield from (Change(f"field {field!r} of {cls} is new") for field in now if field not in was)
    if was.keys() == now.keys() and [*was] != [*now]:
        yield Change(f"the fields of {cls} stand in another order")


def _reads(name: str, was: Mapping[str, Read], now: Mapping[str, Read], keyed: bool) -> Iterator[Change]:
    for stream, read in was.items():
        if stream not in now:
            yield Change(f"{name!r} reads {stream} no more")
        elif now[stream] != read:
            harmless = not keyed and not read["copies"] and not now[stream]["copies"]
            yield Change(
                f"{name!r} reads {stream} by {now[stream]['grouping']} in place of {read['grouping']}", harmless
            )
    yield from (Change(f"{name!r} reads {stream} besides", True) for stream in now if stream not in was)


def _read(kept: str) -> Shape | None:
    try:
        return msgspec.json.decode(kept, type=_Kept).whole
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


class _Kept(msgspec.Struct):
    """A shape, as JSON has it: whatever is in it has the type that it should."""

    format: typing.Literal[1]
    components: dict[str, Component]

    @property
    def whole(self) -> Shape:
        return {"format": self.format, "components": self.components}


def _fields(cls: type[Record]) -> dict[str, str]:
    return {name: schema(kind) for name, kind in field_types(cls).items()}


def _state(one: Declared) -> str:
    """The type of a bolt's state, as text."""
    if one.shape != "state":
        return ""
    process = one.prototype.process
    *_, last = inspect.signature(process).parameters
    return schema(argument(typing.get_type_hints(process)[last], State))


def _method(one: Component) -> str:
    return {"process": "process", "state": "process with state", "execute": "execute"}.get(one["how"], one["how"])


def _listed(texts: list[str]) -> str:
    more = len(texts) - TOLD_MAX
    return "; ".join([*texts[:TOLD_MAX], *([f"and {more:,} more changes"] if more > 0 else [])])


def _cut(text: str) -> str:
    text = text.replace("Ellipsis", "...")
    return text if len(text) <= TYPE_MAX else f"{text[: TYPE_MAX - 1]}…"
