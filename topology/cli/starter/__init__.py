"""The starter that `kedge new` writes: templates, and the parts of one that reads from a server and sends to another.

`parts` has the text for each source and each sink, and `texts` makes files of them. Must not know the command line.

Imports nothing of: topology.cli.commands, topology.cli.output, topology.runtime, typer
"""
