"""Where a bolt emits what belongs to no message, found by reading its source: such a record has a random identity, and
comes at most once (B10). `kedge check --guarantees` tells of it.

This file must not know graphs beyond what was declared of one bolt; it runs nothing of it. What can't be read, an
anchor that is only computed, or a bolt whose source can't be had, is taken for anchored.
"""

import ast
from collections.abc import Iterator

from topology.checks.instance_state import Function, classes, reached
from topology.components import Bolt
from topology.graph import Declared


def methods(declared: Declared) -> Iterator[str]:
    """The methods in which this bolt does so, of `tick`, `execute` and `flush`; none of a bolt that emits nothing."""
    bolt = declared.prototype
    if not isinstance(bolt, Bolt) or not declared.streams:
        return
    if declared.every is not None and callable(getattr(bolt, "tick", None)) and _ticks_give(bolt):
        yield "tick"
    for name, anchors_itself in (("execute", True), ("flush", False)):
        if _finds_unanchored(bolt, name, anchors_itself):
            yield name


def _ticks_give(bolt: Bolt) -> bool:
    """Whether `tick` returns records, or emits some by a collector that it has kept: for that one's input, if it is not
    told another anchor."""
    ticks = [method for method in reached(classes(bolt), "tick") if method.name == "tick"]
    return not ticks or any(map(_gives, ticks)) or _finds_unanchored(bolt, "tick", anchors_itself=True)


def _finds_unanchored(bolt: Bolt, name: str, anchors_itself: bool) -> bool:
    calls = (node for method in reached(classes(bolt), name) for node in ast.walk(method))
    return any(isinstance(node, ast.Call) and _emits_unanchored(node, anchors_itself) for node in calls)


def _gives(method: Function) -> bool:
    """Whether it says that it gives something, yields, or returns something: a `tick` that only fails what the bolt
    holds, say, emits nothing."""
    says = [method.returns, *(node.value for node in ast.walk(method) if isinstance(node, ast.Return))]
    if any(one is not None and not (isinstance(one, ast.Constant) and one.value is None) for one in says):
        return True
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(method))


def _emits_unanchored(call: ast.Call, anchors_itself: bool) -> bool:
    """Of `out.emit(record, …)`. `anchors_itself`: to the input, where it is not told another anchor."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "emit" and call.args):
        return False
    given = [*call.args[1:2], *(one.value for one in call.keywords if one.arg == "anchors")]
    if not given:
        return not anchors_itself and all(one.arg is not None for one in call.keywords)
    return isinstance(given[0], ast.Tuple | ast.List) and not given[0].elts
