"""Give a handler all that is logged in this process: by Kedge, by the user's code, by libraries and by `warnings`.

Loggers of structlog go through the standard library's, with their own fields. If the user's code sets up logging or
structlog while the topology is imported, its setup stays, and only Kedge's own entries arrive here. Must not know what
the handler does.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from topology.runtime.telemetry.log_entries import about, put_together

KEDGE: Final = "kedge"
WARNINGS: Final = "py.warnings"  # where the standard library logs what `warnings.warn` gets

Remaining = Callable[[], None]


class _Enabled(logging.Logger):
    """A logger that cannot be disabled. `dictConfig` disables all loggers that it does not name, also in a bolt's
    `open`, and dead messages would not be logged."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, False if name == "disabled" else value)


def listen(handler: logging.Handler, level: int) -> Remaining:
    """Give the handler Kedge's own entries from `level` on, and warnings.

    Call the returned function after the user's code is loaded. Then the handler gets all entries from `level` on,
    unless that code has set up logging. Until then, it gets what would go to stderr otherwise.
    """
    handler.setLevel(level)
    kedge = logging.getLogger(KEDGE)
    kedge.__class__ = _Enabled
    kedge.addHandler(handler)
    kedge.setLevel(level)
    kedge.propagate = False
    logging.lastResort = handler
    logging.captureWarnings(True)
    warned = logging.getLogger(WARNINGS)
    warned.addHandler(handler)
    warned.propagate = False

    def to_others() -> None:
        for name in [*logging.root.manager.loggerDict]:
            if name == KEDGE or name.startswith(f"{KEDGE}."):
                logging.getLogger(name).__class__ = _Enabled
                logging.getLogger(name).disabled = False
        root = logging.getLogger()
        warned.removeHandler(handler)
        warned.propagate = True
        if not root.handlers:
            root.addHandler(handler)
            root.setLevel(level)
        route_structlog()

    return to_others


def route_structlog() -> None:
    """Route structlog's loggers through the standard library's, if structlog is used and not set up yet."""
    structlog: Any = sys.modules.get("structlog")
    if structlog is None or structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.filter_by_level,
            _as_arguments,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def _as_arguments(_: object, __: str, event: dict[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
    """The last processor: return the arguments for the standard library's logger."""
    text = put_together(event.pop("event", ""), _positional(event.pop("positional_args", ())))
    passed: dict[str, Any] = {
        name: event.pop(name) for name in ("exc_info", "stack_info", "stacklevel") if name in event
    }
    return (text,), {**passed, "extra": about(text, fields=event)}


def _positional(arguments: tuple[Any, ...]) -> Any:
    """Return a single mapping for its names, as in calls of logging."""
    only = arguments[0] if len(arguments) == 1 else None
    return only if isinstance(only, Mapping) and only else arguments
