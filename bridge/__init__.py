"""Run parts of a topology in Spark: hand records over to a cluster and read the results back.

A topology declares `queries`. A run hands records over through `handover`, into `files` that the `driver` reads. Only
this package imports pyspark. Names are imported on first access, because Spark's own Python processes import this
package often. `engine` and `compare` use those parts of the runtime that run one bolt or read one source. Must not know
how a run keeps, links or replaces workers.

Only compare imports: topology.cli
Imports nothing of: topology.runtime.links, topology.runtime.checkpoints, topology.runtime.process,
  topology.runtime.supervisor, topology.storage.sqlite, topology.storage.directory
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from bridge.handover.results import SparkResults
    from bridge.queries.batch_joins import batch_joined
    from bridge.queries.joins import joined
    from bridge.queries.query import Spark, spark_query
    from bridge.queries.tables import Table
    from bridge.queries.windows import (
        Aggregate,
        approx_distinct,
        approx_quantile,
        count,
        distinct,
        earliest,
        latest,
        max_of,
        mean_of,
        min_of,
        sum_of,
        windowed,
    )

__all__ = [
    "Aggregate",
    "Spark",
    "SparkResults",
    "Table",
    "approx_distinct",
    "approx_quantile",
    "batch_joined",
    "count",
    "distinct",
    "earliest",
    "joined",
    "latest",
    "max_of",
    "mean_of",
    "min_of",
    "spark_query",
    "sum_of",
    "windowed",
]

_OF_THE_EXTRA: Final = ("numpy", "pandas", "pyarrow", "pyspark")  # packages that `kedge-streams[spark]` installs
_WHERE: Final = {
    "Spark": "queries.query",
    "spark_query": "queries.query",
    "SparkResults": "handover.results",
    "Table": "queries.tables",
    "joined": "queries.joins",
    "batch_joined": "queries.batch_joins",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"bridge.{_WHERE.get(name, 'queries.windows')}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_THE_EXTRA:
            raise
        from bridge.missing_extra import missing

        raise missing(f"bridge.{name}", error) from None
    return getattr(module, name)
