"""What `topology.run()` and `await topology.serve()` do: in this process, or on worker processes of its own.

Worker processes make the topology anew, so here is found by which words they can: a module and the name that it has
there, or a function and plain values. Must not know how either kind of run works.
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
from topology.runtime.tasks.bolt_threads import OF_A_RUN, check_threads
from topology.runtime.worker.shutdown import CLOSE_S

if TYPE_CHECKING:
    from topology.runtime.supervisor.supervisor import (
        SupervisedRun,  # sockets and processes, which most runs do without
    )

LOADER: Final = "topology.runtime.launch:made_again"  # what makes the topology anew, in a worker
MAIN: Final = "__main__"
MAINS: Final = (MAIN, "__mp_main__")  # and what it is called in a process of `multiprocessing`
DEPTH_MAX: Final = 32  # of values within values

Make = Callable[[], Graph]


def run(topology: Graph, *, workers: int | None, state_dir: str | Path | None, made_by: Make | None) -> Report:
    """See `Topology.run`."""

    async def main() -> Report:
        one = _made(topology, workers, state_dir, made_by)
        alone = isinstance(one, EmbeddedRun)  # user code runs in this loop, and not in workers'
        with handled_signals(one), watched() if alone else contextlib.nullcontext():
            return await one.finish()

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

    # The same, where it is a future: the caller's, who may wait for it elsewhere.
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
            text, code=INVALID_WORKER_COUNT, next="give one for each core at most; None runs in this process"
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


# -- in the program: by which words a worker finds it


def recipe(topology: Graph, made_by: Make | None) -> dict[str, Any]:
    """Arguments for `made_again`, as plain data that msgpack carries. Raises ConfigurationError where a worker process
    could not find the topology by any."""
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
    config = {one.name: getattr(topology.config, one.name) for one in fields(Config)}
    return {"where": where, "attribute": attribute, "file": file, "values": values, "config": config}


def _unmakeable(text: str, next: str = "") -> ConfigurationError:
    return ConfigurationError(text, code=TOPOLOGY_NOT_IMPORTABLE, next=next or TOPOLOGY_NOT_IMPORTABLE.next)


def _holder(topology: Graph) -> tuple[ModuleType, str]:
    """The module that has this topology at its top level, and under which name; the program itself first."""
    for module in _modules():
        for name, value in [*vars(module).items()]:
            if value is topology:
                return module, name
    text = f"no module has the topology {topology.name!r:.80} at its top level, so worker processes can't make it anew"
    raise _unmakeable(text)


def _modules() -> Iterator[ModuleType]:
    known: dict[str, object] = {MAIN: sys.modules[MAIN], **sys.modules}
    return (one for one in known.values() if isinstance(one, ModuleType))


def _home(function: object) -> tuple[ModuleType, str]:
    """The module that has this function at its top level, and its name there."""
    if isinstance(function, FunctionType):
        module, name = sys.modules.get(function.__module__), function.__name__
        if module is not None and getattr(module, name, None) is function:
            return module, name
    said = str(getattr(function, "__qualname__", "") or type(function).__name__)
    text = f"made_by is {said:.80}, which is no function at the top level of a module"
    raise _unmakeable(text)


def _place(module: ModuleType, topology: Graph) -> tuple[str, str | None]:
    """By which a worker imports this module: a dotted name, or a file, with its path."""
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
    """Whether it comes out of msgpack as it was."""
    if depth > DEPTH_MAX:
        return False
    if type(value) is list:
        return all(_plain(one, depth + 1) for one in value)
    if type(value) is dict:
        return all(type(key) is str and _plain(one, depth + 1) for key, one in value.items())
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
    """The same topology, in a worker process, with the settings that were decided on. Raises ConfigurationError for
    whatever is wrong with importing it, or with calling what makes it."""
    from topology.loading.load import LoadTarget, load, made_of

    target = LoadTarget(where, attribute, Path(file) if file else None)
    topology = load(target, {}) if values is None else made_of(target, *values)
    topology.config = Config(**config)
    return topology
