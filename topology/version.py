"""The version of the installed package. Knows nothing else, and reads the metadata on first use."""

from functools import cache


@cache
def version() -> str:
    """Return the version in the package's metadata, which are read once."""
    from importlib import metadata

    try:
        return metadata.version("kedge-streams")
    except metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"
