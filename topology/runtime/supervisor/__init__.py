"""The supervisor of worker processes: starts, links, watches and replaces them, and ends the run.

`supervisor.SupervisedRun` is the run; `fleet` moves each worker through its states, `worker_handle` is one process,
`messages` handles what workers say. Must not know tuples, nor how a task works.

Imports nothing of: acker.ledger, topology.components, topology.records, topology.runtime.process,
  topology.runtime.tasks, topology.runtime.state, topology.runtime.dead_letters
"""
