"""Compiles the hot path if there is a C compiler. All else of the package is in pyproject.toml.

Kedge runs without the compiled modules too, only slower, so a build does not fail for them. The variable KEDGE_CORE
decides, as it does when Kedge runs. With `compiled` a build fails if it can't compile. With `python` it does not try,
and makes a wheel for every system.
"""

import ast
import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
ASKED = os.environ.get("KEDGE_CORE", "").lower()
STAYS_PYTHON = "Kedge: the hot path is not compiled and runs as Python, slower, with the same results"
DIRECTIVES = {
    "language_level": 3,
    "auto_pickle": False,
    "nonecheck": True,
    "annotation_typing": False,  # `int` in an annotation is any int; the .pxd files have the types
    "binding": False,
    "boundscheck": False,
    "wraparound": False,
}


def compiled() -> list[str]:
    """Return the names of the modules, which topology/core/choice.py lists."""
    tree = ast.parse((ROOT / "topology" / "core" / "choice.py").read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "COMPILED":
            assert node.value is not None
            return list(ast.literal_eval(node.value))
    raise SystemExit("topology/core/choice.py has no COMPILED")


def extensions() -> list[Extension]:
    """Return what is to be compiled; nothing without Cython."""
    if ASKED not in ("", "python", "compiled"):
        raise SystemExit(f"Kedge: KEDGE_CORE is python or compiled, not {ASKED!r}")
    if ASKED == "python":
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        without("Cython is not there")
        return []
    found = []
    for module in compiled():
        base = Path(*module.split("."))
        source = next(path for suffix in (".pyx", ".py") if (ROOT / (path := base.with_suffix(suffix))).exists())
        found.append(Extension(module, [str(source)], extra_compile_args=["-O2", "-fwrapv", "-g0"]))
    try:
        made: list[Extension] = cythonize(found, build_dir="build/cython", compiler_directives=DIRECTIVES, quiet=True)
    except Exception as error:  # of its compiler, or of an older Cython that does not know a directive
        without(error)
        return []
    return made


def without(reason: object) -> None:
    """Go on without a compiled core, and say so, unless one was asked for."""
    if ASKED == "compiled":
        raise SystemExit(f"Kedge: KEDGE_CORE=compiled, but the hot path can't be compiled: {reason}")
    print(f"{STAYS_PYTHON}: {reason}")


class OptionalBuild(build_ext):
    """Compiles all modules, or keeps none of them."""

    def run(self) -> None:
        made = [Path(self.get_ext_fullpath(module)) for module in compiled()]  # in place too, if that was asked for
        if not self.inplace and sys.platform == "linux":  # what is installed is smaller without names for profilers
            for extension in self.extensions:
                extension.extra_link_args.append("-Wl,-s")
        try:
            super().run()
        except Exception as error:
            for path in made:
                path.unlink(missing_ok=True)
            self.extensions = []
            without(error)

    def get_source_files(self) -> list[str]:
        return []  # for the source distribution: pyproject.toml names them, and generated C is none of them

    def get_outputs(self) -> list[str]:
        return [path for path in super().get_outputs() if Path(path).exists()]


setup(ext_modules=extensions(), cmdclass={"build_ext": OptionalBuild})
