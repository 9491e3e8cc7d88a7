"""Bolts from plain functions: `@bolt`. Knows the contracts, nothing that runs them."""

from collections.abc import Callable
from functools import update_wrapper
from typing import TYPE_CHECKING, Generic

from topology.components import A, Bolt, Out, Outputs


class FunctionBolt(Bolt, Generic[A, Out]):
    """A bolt whose `process` is a function of one record."""

    def __init__(self, function: Callable[[A], Outputs[Out]]) -> None:
        vars(self)["process"] = function  # itself, not a method around it: no further call for each record
        update_wrapper(self, function, updated=())

    if TYPE_CHECKING:

        def process(self, record: A, /) -> Outputs[Out]:
            """The function."""

    def __call__(self, record: A) -> Outputs[Out]:
        """Call the function itself, so that a decorated function can still be called and tested."""
        return self.process(record)

    def __deepcopy__(self, memo: dict[int, object]) -> "FunctionBolt[A, Out]":
        return FunctionBolt(self.process)


def bolt(function: Callable[[A], Outputs[Out]]) -> FunctionBolt[A, Out]:
    """Make a bolt of a function from a record to an iterable of records, or None: usually a generator. It may be async.

    Use it as a decorator, and pass the result to `topology.bolt(name, function, …)`:

        @bolt
        def split(line: Line) -> Iterator[Word]:
            for text in line.text.split():
                yield Word(text)
    """
    return FunctionBolt(function)
