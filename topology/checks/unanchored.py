"""Emissions of a bolt that belong to no message, found in its source. Such a record has a random identity, and is
delivered at most once (B10); `kedge check --guarantees` reports it.

This file must not know graphs beyond the declaration of one bolt; it runs nothing of it. An anchor that is only
computed at run time counts as anchored, and so does a bolt whose source is missing.
"""

import ast
from collections.abc import Iterator

from topology.checks.instance_state import Function, classes, reached
from topology.components import Bolt
from topology.graph import Declared


def methods(declared: Declared) -> Iterator[str]:
    """Yield those of `tick`, `execute` and `flush` in which this bolt emits unanchored records; none if it emits
    nothing."""
    bolt = declared.prototype
    if not isinstance(bolt, Bolt) or not declared.streams:
        return
    if declared.every is not None and callable(getattr(bolt, "tick", None)) and _ticks_give(bolt):
        yield "tick"
    for name, anchors_itself in (("execute", True), ("flush", False)):
        if _finds_unanchored(bolt, name, anchors_itself):
            yield name


def _ticks_give(bolt: Bolt) -> bool:
    """Return True if `tick` returns records, or emits some without an anchor by a collector that it has kept. Such a
    collector anchors to the input that it was passed with, unless an anchor is given."""
    ticks = [method for method in reached(classes(bolt), "tick") if method.name == "tick"]
    return not ticks or any(map(_gives, ticks)) or _finds_unanchored(bolt, "tick", anchors_itself=True)


def _finds_unanchored(bolt: Bolt, name: str, anchors_itself: bool) -> bool:
    calls = (node for method in reached(classes(bolt), name) for node in ast.walk(method))
    return any(isinstance(node, ast.Call) and _emits_unanchored(node, anchors_itself) for node in calls)


def _gives(method: Function) -> bool:
    """Return True if the method is annotated to return something, yields, or returns something. A `tick` that, for
    example, only fails the inputs that the bolt holds emits nothing."""
    says = [method.returns, *(node.value for node in ast.walk(method) if isinstance(node, ast.Return))]
    if any(result is not None and not (isinstance(result, ast.Constant) and result.value is None) for result in says):
        return True
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(method))


def _emits_unanchored(call: ast.Call, anchors_itself: bool) -> bool:
    """Return True for a call of `out.emit(record, …)` without an anchor. `anchors_itself`: the call anchors to the
    input by default."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "emit" and call.args):
        return False
    given = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "anchors")]
    if not given:
        return not anchors_itself and all(keyword.arg is not None for keyword in call.keywords)
    return isinstance(given[0], ast.Tuple | ast.List) and not given[0].elts
