"""The format and the level of log entries, as the command line names them. Values; light to import."""

from enum import StrEnum


class LogFormat(StrEnum):
    """How entries of the log look; see `topology.cli.output.log`."""

    AUTO = "auto"
    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    """From which level on entries are shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
