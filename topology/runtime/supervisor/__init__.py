"""The supervisor of worker processes: starts, links, watches and replaces them, and ends the run.

`supervisor.SupervisedRun` is the run; `fleet` moves each worker through its states, `worker_handle` is one process,
`messages` handles what workers say. Must not know tasks or tuples.
"""
