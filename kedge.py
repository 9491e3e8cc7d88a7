"""`import kedge` tells the version, `python -m kedge` is the command. Nothing else lives here: see `topology`."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("kedge")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"

if __name__ == "__main__":
    from topology.cli.main import main

    main()
