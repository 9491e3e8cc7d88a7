"""The commands, one file each. Each file is light to import, and imports what it needs when the command is called.

A command must not know another command; only `kedge demo`, which is an example, uses `new` and `run`.

Imports nothing of: topology.cli.commands
"""
