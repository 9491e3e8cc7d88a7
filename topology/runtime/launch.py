"""Implement `topology.run()` and `await topology.serve()`: in this process, or on worker processes.

Worker processes build the topology again. So this module finds out how they can: by a module and the topology's name in
it, or by a function and plain values. Must not know how either kind of run works.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from topology.checks.declaration import require_valid
from topology.codes.command_line import INVALID_WORKER_COUNT, TOPOLOGY_NOT_IMPORTABLE
from topology.config import Config
from topology.errors import ConfigurationError
from topology.graph import Graph
from topology.plan import WORKERS_MAX
from topology.runtime.asyncio_tools import asyncio_run
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.embedded.watchdog import watched
from topology.runtime.run.report import Report
from topology.runtime.run.signals import handled_signals
from topology.runtime.thread_limit import OF_A_RUN, check_threads
from topology.runtime.worker.shutdown import CLOSE_S

if TYPE_CHECKING:
    from topology.runtime.supervisor.supervisor import (
        SupervisedRun,  # sockets and processes, which most runs do without
    )

LOADER: Final = "topology.runtime.launch:made_again"  # builds the topology again, in a worker
MAIN: Final = "__main__"
MAINS: Final = (MAIN, "__mp_main__")  # the main module, and its name in a process of `multiprocessing`
DEPTH_MAX: Final = 32  # levels of values within values

Make = Callable[[], Graph]


def run(topology: Graph, *, workers: int | None, state_dir: str | Path | None, made_by: Make | None) -> Report:
    """See `Topology.run`."""

    async def main() -> Report:
        new_run = _made(topology, workers, state_dir, made_by)
        alone = isinstance(new_run, EmbeddedRun)  # user code runs in this loop, and not in workers
        with handled_signals(new_run), watched() if alone else contextlib.nullcontext():
            return await new_run.finish()

    return asyncio_run(main())


async def serve(
    topology: Graph,
    *,
    workers: int | None,
    state_dir: str | Path | None,
    stop: Awaitable[Any] | None,
    made_by: Make | None,
) -> Report:
    """See `Topology.serve`."""
    run = _made(topology, workers, state_dir, made_by)
    if stop is None:
        return await run.finish()

    def drain(stopping: asyncio.Future[Any]) -> None:
        run.drain()

    # If `stop` is a future, this is the same one: the caller's, who may wait for it elsewhere.
    stopping = asyncio.ensure_future(stop)
    stopping.add_done_callback(drain)
    try:
        report = await run.finish()
    finally:
        stopping.remove_done_callback(drain)
        if stopping is not stop:
            stopping.cancel()
            await asyncio.wait({stopping}, timeout=CLOSE_S)
    if stopping.done() and not stopping.cancelled():
        stopping.result()
    return report


def _made(
    topology: Graph, workers: int | None, state_dir: str | Path | None, made_by: Make | None
) -> "EmbeddedRun | SupervisedRun":
    if workers is None:
        check_threads(OF_A_RUN)
        return EmbeddedRun(topology, state_dir=state_dir)
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= WORKERS_MAX:
        text = f"workers takes a whole number from 1 to {WORKERS_MAX:,}, or None, not {workers!r:.80}"
        raise ConfigurationError(
            text, code=INVALID_WORKER_COUNT, next="give at most one worker per core; None runs in this process"
        )
    require_valid(topology)
    arguments = recipe(topology, made_by)
    from topology.runtime.supervisor.supervisor import SupervisedRun

    return SupervisedRun(
        topology,
        workers=workers,
        loader=LOADER,
        arguments=arguments,
        state_dir=state_dir,
        log_level=logging.getLogger("kedge").getEffectiveLevel(),
    )


# -- in the program: how a worker finds the topology


def recipe(topology: Graph, made_by: Make | None) -> dict[str, Any]:
    """Return the arguments for `made_again`, as plain data for msgpack. Raises ConfigurationError if a worker process
    could not find the topology."""
    values: tuple[list[Any], dict[str, Any]] | None = None
    function: object
    if made_by is None:
        module, attribute = _holder(topology)
    else:
        function = made_by.func if isinstance(made_by, partial) else made_by
        module, attribute = _home(function)
        values = ([*made_by.args], {**made_by.keywords}) if isinstance(made_by, partial) else ([], {})
        for name, value in (*enumerate(values[0], 1), *values[1].items()):
            if not _plain(value):
                text = f"made_by gives {attribute}() a {type(value).__name__} ({name}), which is not plain"
                raise _unmakeable(text, "give None, bool, int, float, str, bytes, list or dict")
    where, file = _place(module, topology)
    config = {field.name: getattr(topology.config, field.name) for field in fields(Config)}
    return {"where": where, "attribute": attribute, "file": file, "values": values, "config": config}


def _unmakeable(text: str, next: str = "") -> ConfigurationError:
    return ConfigurationError(text, code=TOPOLOGY_NOT_IMPORTABLE, next=next or TOPOLOGY_NOT_IMPORTABLE.next)


def _holder(topology: Graph) -> tuple[ModuleType, str]:
    """Return the module that has this topology at its top level, and the name there. The program itself comes first."""
    for module in _modules():
        for name, value in [*vars(module).items()]:
            if value is topology:
                return module, name
    text = f"no module has the topology {topology.name!r:.80} at its top level, so worker processes can't build it"
    raise _unmakeable(text)


def _modules() -> Iterator[ModuleType]:
    known: dict[str, object] = {MAIN: sys.modules[MAIN], **sys.modules}
    return (module for module in known.values() if isinstance(module, ModuleType))


def _home(function: object) -> tuple[ModuleType, str]:
    """Return the module that has this function at its top level, and its name there."""
    if isinstance(function, FunctionType):
        module, name = sys.modules.get(function.__module__), function.__name__
        if module is not None and getattr(module, name, None) is function:
            return module, name
    said = str(getattr(function, "__qualname__", "") or type(function).__name__)
    text = f"made_by is {said:.80}, which is not a function at the top level of a module"
    raise _unmakeable(text)


def _place(module: ModuleType, topology: Graph) -> tuple[str, str | None]:
    """Return how a worker imports this module: a dotted name, or a file with its path."""
    spec = getattr(module, "__spec__", None)
    if module.__name__ not in MAINS:
        return module.__name__, None
    if spec is not None:  # python -m package.module
        return str(spec.name), None
    file = Path(getattr(module, "__file__", None) or "")
    if file.is_file():
        return str(file), str(file.absolute())
    text = f"the topology {topology.name!r:.80} is in no file, so worker processes can't import it"
    raise _unmakeable(text)


def _plain(value: object, depth: int = 0) -> bool:
    """Return True if msgpack returns the value as it was."""
    if depth > DEPTH_MAX:
        return False
    if type(value) is list:
        return all(_plain(item, depth + 1) for item in value)
    if type(value) is dict:
        return all(type(key) is str and _plain(item, depth + 1) for key, item in value.items())
    if type(value) is int:
        return -(2**63) <= value < 2**64
    return value is None or type(value) in (bool, float, str, bytes)


# -- in a worker


def made_again(
    where: str,
    attribute: str,
    file: str | None,
    values: tuple[list[Any], Mapping[str, Any]] | None,
    config: Mapping[str, Any],
) -> Graph:
    """Return the same topology, in a worker process, with the chosen settings. Raises ConfigurationError for any error
    in importing it, or in calling what builds it."""
    from topology.loading.load import LoadTarget, load, made_of

    target = LoadTarget(where, attribute, Path(file) if file else None)
    topology = load(target, {}) if values is None else made_of(target, *values)
    topology.config = Config(**config)
    return topology
