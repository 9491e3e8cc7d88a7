"""Data for a topology that is given no settings: made by the function of its name in `samples.py` beside its file.

Knows files and imports; must not know what is measured.
"""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from topology.cli.loading import target_of

SAMPLES: Final = "samples.py"


@contextmanager
def sample_of(target: str) -> Iterator[tuple[str, ...]]:
    """Settings, NAME=VALUE each, that read the data made for `target`; none if nothing makes any.

    The data are in a folder of their own, which is gone afterwards. Raises what the maker raises, OSError for one.
    """
    maker = _maker(target)
    if maker is None:
        yield ()
        return
    with TemporaryDirectory(prefix="kedge-sample-", ignore_cleanup_errors=True) as folder:
        yield tuple(f"{name}={value}" for name, value in maker(Path(folder)).items())


def _maker(target: str) -> Callable[[Path], dict[str, str]] | None:
    found = target_of(target)
    file = found.file or _file_of(found.where)
    if file is None or not (samples := file.with_name(SAMPLES)).is_file():
        return None
    spec = importlib.util.spec_from_file_location("_kedge_samples", samples)
    if spec is None or spec.loader is None:
        return None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    maker: Callable[[Path], dict[str, str]] | None = getattr(module, file.stem, None)
    return maker if callable(maker) else None


def _file_of(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None
