"""`import kedge` tells the version, `python -m kedge` is the command. Nothing else lives here: see `topology`."""


def __getattr__(name: str) -> str:
    """`kedge.__version__`. Asked for late, since `main` has to look first whose package `topology` is."""
    if name == "__version__":
        from topology.version import version

        return version()
    raise AttributeError(f"module 'kedge' has no attribute {name!r}")


def _interrupted(number: int, frame: object) -> None:
    """A signal before there is a run to drain: one sentence, not a traceback out of an import."""
    import os
    import sys

    text, terminal = "kedge: interrupted before anything ran", sys.modules.get("topology.cli.terminal")
    if terminal is not None and terminal.VOICE.as_event is not None:
        text = terminal.VOICE.as_event("error", text, {})
    os.write(2, f"{text}\n".encode())
    os._exit(1)


def main() -> None:
    """The command. With `python -m` the current folder comes first on the import path: one of the user's that hides
    our package `topology` is named, since what would tell of it otherwise is in that package."""
    import signal
    import sys
    from importlib.util import find_spec
    from pathlib import Path

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    ours = Path(__file__).resolve().parent / "topology"
    spec = find_spec("topology")
    found = [Path(path).resolve() for path in (spec.submodule_search_locations or ())] if spec else []
    if spec is not None and ours not in found:
        where = found[0] if found else spec.origin
        print(
            f"kedge: {where} hides Kedge's own package 'topology', because it comes first on Python's import path\n"
            "  next: rename your topology, or run this in another folder   (K130: `kedge explain K130`)",
            file=sys.stderr,
        )
        sys.exit(2)
    from topology.writing import open_standard_streams

    open_standard_streams()
    from topology.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
