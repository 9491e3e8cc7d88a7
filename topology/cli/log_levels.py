"""The format and the level of log entries, as the command line names them. Values; light to import."""

from enum import StrEnum


class LogFormat(StrEnum):
    """The formats of log entries; see `topology.cli.output.log`."""

    AUTO = "auto"
    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    """The lowest level of log entries that are shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
