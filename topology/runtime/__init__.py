"""The running part: `topology` declares, this package runs.

`launch` begins an `embedded` run, or a `supervisor` of worker `process`es. Either has one `worker` or several, with
`tasks` and their `state`, `commits`, `links` and `dead_letters`. Must not know any concrete component, nor a terminal.

Imports nothing of: spouts, bolts, topology.cli, topology.testing, rich, typer
"""
