"""Questions about a state directory that no run uses: its dead letters, its state, and state as lines of text.

`kedge dead` and `kedge state` are answered from the files alone. Must not know sockets or terminals.

Imports nothing of: socket, topology.cli, rich, typer
"""
