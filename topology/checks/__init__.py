"""Checks of a declared graph before anything runs: its mistakes, its warnings, and the guarantee of each sink.

`declaration.mistakes` collects all mistakes. `inputs` checks groupings, `instance_state` attributes that change,
`guarantees` the causes that weaken a sink, and `recomputed` bolts whose results may differ after a crash. The room may
read a user's source, but must not run user code, nor know the runtime.

Imports nothing of: topology.runtime, topology.storage, topology.loading, topology.cli
"""
