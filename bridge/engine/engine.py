"""`--engine spark`: a topology's bolts run in Spark's micro-batches, and its spouts in Kedge's workers.

Kedge's workers then run another topology: the spouts, a hand-over of each of their streams, and a companion that has
all of the bolts. Only declares; pyspark is imported when the run begins.
"""

import importlib.util
import json
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bridge.engine.handover import QUERY, HandOverBytes, Outcomes, Rejections, begin_run
from bridge.engine.mapping import COMPANION, mapped, mistakes
from bridge.handover.results import query_folder
from bridge.queries.options import DEFAULT, TRIGGER, trigger_of
from bridge.queries.query import Spark
from topology.codes.startup import ENGINE_NOT_INSTALLED
from topology.companions import Launch
from topology.engines import Engine
from topology.errors import ConfigurationError, Mistake
from topology.graph import Graph, Input
from topology.groupings import Shuffle
from topology.loading.hints import refuse_hidden
from topology.topology import Topology
from topology.user_frames import HOME

NAME_MAX: Final = 64  # characters of a component's name


class EngineSpark(Spark):
    """The driver of a whole topology on Spark. `again`: the arguments that load the same topology again."""

    name = COMPANION

    def __init__(self, again: Mapping[str, Any]) -> None:
        super().__init__()
        self.again = again
        self.trigger = DEFAULT
        self._run = secrets.token_hex(8)  # the same in all lives of the driver

    def configure(self, name: str, value: str | Mapping[str, str], called: str) -> None:
        if name == TRIGGER:
            self.trigger = trigger_of(str(value), called)
        else:
            super().configure(name, value, called)

    def launch(self, folder: Path) -> Launch:
        """Return the driver's command. Raises ConfigurationError if pyspark is missing."""
        if importlib.util.find_spec("pyspark") is None:
            text = "--engine spark needs Spark, but pyspark is not installed where this kedge runs"
            raise ConfigurationError(
                text, code=ENGINE_NOT_INSTALLED, next=f"{sys.executable} -m pip install 'kedge-streams[spark]'"
            )
        request = {
            "folder": str(folder),
            "master": self.master,
            "settings": self.settings,
            "again": dict(self.again),
            "trigger": self.trigger,
            "run": self._run,
        }
        begin_run(query_folder(folder, QUERY), self._run)  # worker processes draw other names
        refuse_hidden()  # Spark's processes find our packages only by this path
        path = os.pathsep.join([*(entry or os.getcwd() for entry in sys.path), str(HOME)])
        command = (sys.executable, "-P", "-m", "bridge.engine.driver")
        return Launch(command, {**os.environ, "PYTHONPATH": path}, json.dumps(request).encode())


class SparkEngine(Engine):
    """Spark Structured Streaming."""

    name = "spark"

    def mistakes(self, topology: Graph) -> list[Mistake]:
        return mistakes(topology)

    def derived(self, topology: Graph, again: Mapping[str, Any]) -> Topology:
        made = Topology(topology.name, topology.config)
        made.place = topology.place
        made.components = [component for component in topology.components if component.kind == "spout"]
        made.companions, made.companion_places = [*topology.companions], [*topology.companion_places]
        given = mapped(topology)
        inputs = []
        for spout, cls in given.streams:
            declared = given.plan.components[spout]
            input = f"{declared.known_as}.{cls.__name__}"
            name = _free(f"{spout}-{cls.__name__}", made)
            made.bolt(name, HandOverBytes(cls, input), Input(made, spout, cls, Shuffle(), declared.place))
            made.components[-1].place = declared.place
            inputs.append(input)
        results = made.spout(_free(COMPANION, made), Outcomes(inputs, timed=bool(given.timed)))
        made.bolt(_free("rejected", made), Rejections(), results.shuffle())
        made.companion(EngineSpark(again))
        for component in made.components[-2:]:
            component.place = topology.place
        made.companion_places[-1] = topology.place
        return made


def _free(wanted: str, topology: Graph) -> str:
    """Return a name that no component has."""
    taken = {component.name for component in topology.components}
    names = (f"{wanted[: NAME_MAX - 3]}{f'-{number}' if number else ''}" for number in range(len(taken) + 1))
    return next(name for name in names if name not in taken)


ENGINE: Final = SparkEngine()
