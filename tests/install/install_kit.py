"""Kedge as strangers get it: built from a copy of the source, installed into an environment with nothing else in it.

What is installed comes from where pip is set up to look, as for `make test` itself; pip's own words are shown where
that fails. Nothing of the developer's shell reaches a command but what pip needs.
"""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_COPIED = (".git", ".venv", "*.egg-info", "__pycache__", "*.so", ".*_cache", ".hypothesis", "build", "dist", "runs")
PATIENCE_S = 240.0  # for what takes ten seconds on a quiet machine


def ran(*command: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    """Runs a command to its end, without a terminal."""
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=dict(env) if env is not None else None,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def done(*command: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """As `ran`, for what has to succeed; returns its stdout."""
    result = ran(*command, cwd=cwd, env=env)
    assert result.returncode == 0, f"{' '.join(map(str, command))}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def copied(to: Path, source: Path = ROOT) -> Path:
    """The source without git and without what was made of it: an old `build/` would bring back files that are gone."""
    shutil.copytree(source, to, ignore=shutil.ignore_patterns(*NOT_COPIED))
    return to


def built(source: Path, to: Path, *kinds: str, env: Mapping[str, str] | None = None) -> Path:
    """Builds in an environment of its own, as pip does; a source distribution, and a wheel out of that, unless `kinds`
    says otherwise. Returns the wheel."""
    done(sys.executable, "-m", "build", *kinds, "--outdir", to, source, cwd=to.parent, env=env)
    (wheel,) = to.glob("*.whl")
    return wheel


@dataclass(frozen=True)
class Stranger:
    """Somebody with an environment, a home and nothing else."""

    environment: Path
    home: Path

    @property
    def env(self) -> dict[str, str]:
        """What the shell of such a person would have, and how pip finds packages here."""
        path = os.pathsep.join([str(self.environment / "bin"), "/usr/local/bin", "/usr/bin", "/bin"])
        return {**pip_settings(), "PATH": path, "HOME": str(self.home), "TMPDIR": str(self.tmp), "LANG": "C.UTF-8"}

    @property
    def tmp(self) -> Path:
        return self.home / "tmp"

    def types(self, line: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
        """A line, in a shell, in the home unless told otherwise."""
        return ran("/bin/sh", "-c", line, cwd=cwd or self.home, env=self.env)


def stranger(folder: Path, *installed: str | Path, pip: bool = True) -> Stranger:
    """Makes an environment in the folder and installs these into it."""
    environment, home = folder / "env", folder / "home"
    (home / "tmp").mkdir(parents=True)
    venv.create(environment, with_pip=pip, symlinks=True)
    one = Stranger(environment, home)
    if installed:
        into(environment / "bin" / "python", installed, env=one.env)
    return one


def into(python: Path, installed: Iterable[str | Path], *options: str, env: Mapping[str, str]) -> str:
    """pip install, by this environment's pip for the other one's Python."""
    pip = (sys.executable, "-m", "pip", "--python", python, "--no-input", "--disable-pip-version-check")
    return done(*pip, "install", *options, *installed, cwd=python.parent, env={**env, "HOME": os.environ["HOME"]})


def pip_settings() -> dict[str, str]:
    """The variables that say where pip looks, how it gets there and what it has got already."""
    names = ("PIP_", "SSL_CERT_", "REQUESTS_CA_BUNDLE")
    kept = {key: value for key, value in os.environ.items() if key.startswith(names) or key.lower().endswith("_proxy")}
    home = Path(os.environ.get("HOME", "/"))
    files = (home / ".config/pip/pip.conf", home / ".pip/pip.conf")
    found = next((str(file) for file in files if file.is_file()), None)
    return {"PIP_CACHE_DIR": str(home / ".cache/pip"), **({"PIP_CONFIG_FILE": found} if found else {}), **kept}
