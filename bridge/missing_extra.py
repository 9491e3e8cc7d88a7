"""That what `kedge-streams[spark]` brings is not installed, in a sentence. Imports nothing of that."""

import sys

from topology.codes.settings import SPARK_NOT_INSTALLED
from topology.errors import ConfigurationError


def missing(what: str, error: ImportError) -> ConfigurationError:
    """The error of whoever can't do without it."""
    text = f"{what} needs Spark, which can't be imported: {error}"
    return ConfigurationError(
        text, code=SPARK_NOT_INSTALLED, next=f"{sys.executable} -m pip install 'kedge-streams[spark]'"
    )
