"""Imports of the clients that only some users need, and the error if one is missing. Must not know any client."""

from importlib import import_module
from typing import Any

from topology.codes.connectors import CLIENT_NOT_INSTALLED
from topology.errors import ConfigurationError


def client(module: str, *, package: str, extra: str, needed_by: str) -> Any:
    """Import and return a module of a client library. Blocks while Python loads it.

    `package` is its name on the package index, `extra` that of Kedge's extra. Raises ConfigurationError, which says
    what to install, if it is not there.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f'{needed_by} needs {package}, which can\'t be imported ({error}): pip install "kedge-streams[{extra}]"',
            code=CLIENT_NOT_INSTALLED,
        ) from error
