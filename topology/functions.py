"""Bolts from plain functions: `@bolt`. Knows the contracts, nothing that runs them."""

from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import Any, Generic

from topology.components import A, Bolt, Out, Outputs


class FunctionBolt(Bolt, Generic[A, Out]):
    """A bolt whose `process` is a function of one record."""

    def __init__(self, function: Callable[[A], Outputs[Out]]) -> None:
        self.process: Any = function
        update_wrapper(self, function, updated=())

    def __call__(self, record: A) -> Outputs[Out]:
        """The function itself, so that a decorated one can still be called and tested."""
        result: Outputs[Out] = self.process(record)
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> "FunctionBolt[A, Out]":
        return FunctionBolt(self.process)


def bolt(function: Callable[[A], Iterable[Out] | None]) -> FunctionBolt[A, Out]:
    """Makes a bolt of a function from a record to an iterable of records, or None: a generator, most of the time.

    Use it as a decorator, `@bolt`, and give the result to `topology.bolt(name, function, …)`.
    """
    return FunctionBolt(function)
