"""The error for a missing `kedge-streams[spark]`. Imports nothing of that extra."""

import sys

from topology.codes.settings import SPARK_NOT_INSTALLED
from topology.errors import ConfigurationError


def missing(what: str, error: ImportError) -> ConfigurationError:
    """Return the error for `what`, a name that cannot work without Spark."""
    text = f"{what} needs Spark, which can't be imported: {error}"
    return ConfigurationError(
        text, code=SPARK_NOT_INSTALLED, next=f"{sys.executable} -m pip install 'kedge-streams[spark]'"
    )
