"""State as JSON Lines: per component a header with the number of keys and the type of their values, and one line per
key.

    {"kedge": "state", "format": 1, "topology": "t", "run_id": "", "component": "count", "keys": 2, "schema": {…}}
    {"slot": 7, "key": "10.0.0.1", "value": [3, 1.5], "timers": {"ring": "2026-01-01T00:00:00+00:00"}}

A key whose outputs are named by their count has that count, too: "outputs": 4, and of its timers "timer_outputs": 2.
Without it sinks would take later outputs for the first ones.

Pure: values in, lines out, and back. Must not know stores, nor where lines come from.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from topology.codes.declarations import (
    DUPLICATE_STATE_KEY,
    INVALID_STATE_LINE,
    NEWER_STATE_EXPORT_FORMAT,
    TRUNCATED_STATE_EXPORT,
)
from topology.errors import ConfigurationError, EmitError
from topology.groupings import slot_of
from topology.storage.directory.shape import ComponentShape, component_of
from topology.storage.encoding.json_values import due_of, key_form, key_json, time_text, value_bytes, value_json
from topology.storage.rescale.partition import KeptKey

Decode = Callable[[bytes], object]

FORMAT: Final = 1
LINE_BYTES_MAX: Final = 1 << 30  # of one line; a row of state has fewer
_HEADER: Final = {"kedge", "format", "topology", "run_id", "component", "keys", "schema"}
_ROW: Final = {"slot", "key", "value", "timers"}
_OUTPUTS: Final = ("outputs", "timer_outputs")  # only where there are some
_OUTPUTS_MAX: Final = 1 << 62


@dataclass(frozen=True)
class Header:
    """The line before the keys of one component. `component` is the name that it is known as."""

    topology: str
    run_id: str
    component: str
    keys: int
    schema: ComponentShape


def header_line(header: Header) -> str:
    fields = {"kedge": "state", "format": FORMAT, "topology": header.topology, "run_id": header.run_id}
    return _json(fields | {"component": header.component, "keys": header.keys, "schema": header.schema})


def row_line(kept: KeptKey) -> str:
    return _json(row_json(kept))


def row_json(kept: KeptKey) -> dict[str, Any]:
    """Return the data of a key, for `json.dumps`."""
    timers = {name: time_text(due) for name, due in kept.timers.items()}
    row = {"slot": kept.slot, "key": key_json(kept.key), "value": value_json(kept.value), "timers": timers}
    counts = zip(_OUTPUTS, (kept.outputs, kept.timer_outputs), strict=True)
    return row | {name: count for name, count in counts if count}


def _json(value: Any) -> str:
    """Return JSON in ASCII: no terminal interprets it as control sequences, and every encoding has it."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(", ", ": "))


class Reading:
    """A reader of such lines, from a file called `name`. Read the `sections` in their order, each to its end before the
    next one.

    `decoder`: component → a function that raises EmitError for an invalid value of its state; None if its type is
    unknown.
    """

    def __init__(
        self, lines: Iterable[bytes], name: str, decoder: Callable[[str], Decode | None] = lambda component: None
    ) -> None:
        self._lines = iter(lines)
        self.name = name
        self._decoder = decoder
        self._number = 0  # of the line that was read last
        self._first = 0  # of the line of this section's first key

    def sections(self) -> Iterator[tuple[Header, Iterator[KeptKey]]]:
        """Yield one component after the other, each with its keys. Raises ConfigurationError, with the line's
        number."""
        seen: set[str] = set()
        line = self._next()
        if line is None:
            self._refuse("the file is empty; a header is expected")
        while line is not None:
            header = self._header(line)
            if header.component in seen:
                self._refuse(f"a second header of {header.component!r}")
            seen.add(header.component)
            self._first = self._number + 1
            yield header, self._rows(header)
            line = self._next()

    def twice(self, at: int) -> NoReturn:
        """Raise ConfigurationError for the key with index `at` in this section, which is a duplicate."""
        text = f"{self.name}:{self._first + at}: this key was in a line before"
        raise ConfigurationError(text, code=DUPLICATE_STATE_KEY)

    def _rows(self, header: Header) -> Iterator[KeptKey]:
        decode = self._decoder(header.component)
        for number in range(header.keys):
            line = self._next()
            if line is None:
                text = f"{self.name} ends after {number:,} of {header.keys:,} keys of {header.component!r}"
                raise ConfigurationError(text, code=TRUNCATED_STATE_EXPORT)
            yield self._row(line, decode)

    def _next(self) -> bytes | None:
        line = next(self._lines, None)
        self._number += 1
        if line is not None and len(line) > LINE_BYTES_MAX:
            self._refuse(f"{len(line):,} bytes are too many for a line")
        return line

    def _header(self, line: bytes) -> Header:
        fields = self._object(line)
        if fields.get("kedge") != "state" or fields.keys() != _HEADER:
            self._refuse('a header is expected here, {"kedge": "state", …}, and this is none')
        if type(fields["format"]) is int and fields["format"] > FORMAT:
            text = f"{self.name}:{self._number}: format {fields['format']}; this Kedge reads format {FORMAT}"
            raise ConfigurationError(text, code=NEWER_STATE_EXPORT_FORMAT)
        texts = (fields["topology"], fields["run_id"], fields["component"])
        schema = component_of(json.dumps(fields["schema"]))
        if fields["format"] != FORMAT or not all(type(text) is str for text in texts) or schema is None:
            self._refuse("a header whose fields are not what they should be")
        if type(fields["keys"]) is not int or fields["keys"] < 0:
            self._refuse("a header that does not say how many keys follow")
        return Header(*texts, fields["keys"], schema)

    def _row(self, line: bytes, decode: Decode | None) -> KeptKey:
        fields = self._object(line)
        counts = [fields.pop(name, 0) for name in _OUTPUTS]
        if fields.keys() != _ROW or type(fields["timers"]) is not dict:
            self._refuse("a key is expected here, with slot, key, value and timers")
        try:
            key, value = key_form(fields["key"]), value_bytes(fields["value"])
            timers = {name: due_of(at) for name, at in fields["timers"].items()}
            if value is not None and decode is not None:
                decode(value)
        except (ValueError, TypeError, OverflowError, EmitError) as error:
            self._refuse(str(error))
        if type(fields["slot"]) is not int or fields["slot"] != slot_of(key):
            self._refuse(f"the key's slot is {slot_of(key)}, and not {fields['slot']!r:.20}")
        for count in counts:
            if type(count) is not int or not 0 <= count <= _OUTPUTS_MAX:
                self._refuse(f"a number of outputs is expected, and not {count!r:.20}")
        if value is None and not timers and not any(counts):
            self._refuse("neither a value nor a timer")
        return KeptKey(fields["slot"], key, value, timers, *counts)

    def _object(self, line: bytes) -> dict[str, Any]:
        try:
            fields = json.loads(line, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            self._refuse(f"no JSON: {error}")
        if type(fields) is not dict:
            self._refuse("not an object")
        return fields

    def _refuse(self, what: str) -> NoReturn:
        raise ConfigurationError(f"{self.name}:{self._number}: {what}", code=INVALID_STATE_LINE)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number in JSON")
