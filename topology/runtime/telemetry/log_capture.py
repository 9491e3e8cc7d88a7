"""Gives a handler all that is logged in this process: by Kedge, by the user's code, by libraries, by `warnings`.

Loggers of structlog come through the standard library's, with their own fields. Whoever sets logging or structlog up
for themselves, as the topology is imported, is left alone: then only Kedge's own entries come here. Must not know what
the handler does.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from topology.runtime.telemetry.log_entries import about, put_together

KEDGE: Final = "kedge"
WARNINGS: Final = "py.warnings"  # where the standard library logs what `warnings.warn` is told

Remaining = Callable[[], None]


class _Enabled(logging.Logger):
    """Can't be disabled: `dictConfig` disables all loggers that it does not name, in a bolt's `open` as well, and dead
    messages would go unsaid."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, False if name == "disabled" else value)


def listen(handler: logging.Handler, level: int) -> Remaining:
    """Gives it Kedge's own entries from `level` on, and warnings. Call what is returned once the user's code is loaded:
    then it gets everybody's from `level` on, unless that code has set up logging. Until then it gets what would have
    gone to stderr otherwise."""
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
    """Has structlog's loggers log through the standard library's, where it is used and not set up yet."""
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
    """The last processor: what the standard library's logger is called with."""
    text = put_together(event.pop("event", ""), _positional(event.pop("positional_args", ())))
    passed: dict[str, Any] = {
        name: event.pop(name) for name in ("exc_info", "stack_info", "stacklevel") if name in event
    }
    return (text,), {**passed, "extra": about(text, fields=event)}


def _positional(arguments: tuple[Any, ...]) -> Any:
    """A single mapping stands for its names, as in calls of logging."""
    one = arguments[0] if len(arguments) == 1 else None
    return one if isinstance(one, Mapping) and one else arguments
