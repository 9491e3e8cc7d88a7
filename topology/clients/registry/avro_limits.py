"""Avro schemas by which a few bytes could end a process, or keep it busy for ever. Pure.

fastavro's compiled reader has no limit for a value within a value, so a message of some kilobytes overflows the stack.
And an array of values without bytes may claim to have any number of them.
"""

from collections.abc import Mapping
from typing import Any, Final

RECORDS: Final = ("record", "error")


class SchemaLimits:
    """The facts about a parsed schema. `named`: the parsed types with a name.

    is_recursive     A type contains itself.
    repeats_nothing  An array has values without bytes, such as nulls.
    """

    def __init__(self, parsed: Any, named: Mapping[str, Any]) -> None:
        self.is_recursive = self.repeats_nothing = False
        self._named = named
        self._looked_at: set[str] = set()
        self._without_bytes: dict[str, bool] = {}  # records by name
        self._look(parsed, ())

    def _look(self, schema: Any, within: tuple[str, ...]) -> None:
        if isinstance(schema, str):
            if schema in self._named:
                self._look(self._named[schema], within)
            return
        if isinstance(schema, list):
            for part in schema:
                self._look(part, within)
            return
        kind = schema["type"]
        if kind in RECORDS:
            self._look_at_record(schema, within)
        elif kind in ("array", "map"):
            items = schema["items" if kind == "array" else "values"]
            self._look(items, within)
            self.repeats_nothing |= kind == "array" and self._has_no_bytes(items)
        elif not isinstance(kind, str):
            self._look(kind, within)

    def _look_at_record(self, schema: Any, within: tuple[str, ...]) -> None:
        name = schema["name"]
        if name in within:
            self.is_recursive = True
        elif name not in self._looked_at:
            self._looked_at.add(name)
            for field in schema["fields"]:
                self._look(field["type"], (*within, name))

    def _has_no_bytes(self, schema: Any) -> bool:
        """Return True if each value takes no bytes."""
        if isinstance(schema, str):
            return schema == "null" or (schema in self._named and self._has_no_bytes(self._named[schema]))
        if isinstance(schema, list):
            return False  # the number of its branch
        kind = schema["type"]
        if kind in RECORDS:
            return self._record_has_no_bytes(schema)
        if kind == "fixed":
            return not schema["size"]
        return kind == "null" or (not isinstance(kind, str) and self._has_no_bytes(kind))

    def _record_has_no_bytes(self, schema: Any) -> bool:
        name = schema["name"]
        if name not in self._without_bytes:
            self._without_bytes[name] = False  # while its fields are looked at: within itself, it has no end
            self._without_bytes[name] = all(self._has_no_bytes(field["type"]) for field in schema["fields"])
        return self._without_bytes[name]
