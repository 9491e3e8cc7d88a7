"""The version of what is installed. Knows nothing else, and asks only when it is asked."""

from functools import cache


@cache
def version() -> str:
    """As the package's metadata have it, which are read once."""
    from importlib import metadata

    try:
        return metadata.version("kedge-streams")
    except metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"
