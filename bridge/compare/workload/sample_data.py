"""The contents of `samples.py` beside a topology's file. A function of the topology's name makes data for a topology
without settings. COUNTED names the key by which it counts.

Knows files and imports; must not know what is measured.
"""

import importlib.util
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from topology.codes.comparison import INVALID_COUNTED
from topology.errors import ConfigurationError
from topology.loading.load import target_of

SAMPLES: Final = "samples.py"
COUNTED: Final = "COUNTED"


@contextmanager
def sample_of(target: str) -> Iterator[tuple[str, ...]]:
    """Yield settings, NAME=VALUE each, that read the data made for `target`; none if no function makes any.

    The data are in a folder of their own, which is removed afterwards. Raises the exceptions of the maker, for example
    OSError.
    """
    maker = _maker(target)
    if maker is None:
        yield ()
        return
    with TemporaryDirectory(prefix="kedge-sample-", ignore_cleanup_errors=True) as folder:
        yield tuple(f"{name}={value}" for name, value in maker(Path(folder)).items())


def counted_of(target: str) -> tuple[str, str] | tuple[()]:
    """Return a regex and a group of it, by which the topology counts messages; () if it is not declared.

    Raises ConfigurationError for an invalid declaration.
    """
    module, name = _samples(target)
    found = getattr(module, COUNTED, {}).get(name) if module is not None else None
    if found is None:
        return ()
    try:
        pattern, key = found
        if key in re.compile(pattern).groupindex:
            return pattern, key
    except (TypeError, ValueError, re.error):
        pass
    text = f"{COUNTED}[{name!r}] in {SAMPLES} must be a pair: a regular expression, and the name of one of its groups"
    raise ConfigurationError(text, code=INVALID_COUNTED)


def _maker(target: str) -> Callable[[Path], dict[str, str]] | None:
    module, name = _samples(target)
    maker: Callable[[Path], dict[str, str]] | None = getattr(module, name, None)
    return maker if callable(maker) else None


def _samples(target: str) -> tuple[Any, str]:
    """Return the module, None if there is none, and the topology's name in it."""
    found = target_of(target)
    file = found.file or _file_of(found.where)
    if file is None or not (samples := file.with_name(SAMPLES)).is_file():
        return None, ""
    spec = importlib.util.spec_from_file_location("_kedge_samples", samples)
    if spec is None or spec.loader is None:
        return None, ""
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, file.stem


def _file_of(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None
