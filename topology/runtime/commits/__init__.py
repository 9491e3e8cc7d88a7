"""Commits of a worker: what several tasks have changed goes into one transaction, in one order.

`group_commit` gathers, writes on the loop or in a thread, and tells each part when its changes are durable. Must not
know what a part keeps.

Imports nothing of: acker, topology.components, topology.runtime.tasks, topology.runtime.state,
  topology.runtime.dead_letters, topology.runtime.poison, topology.storage.sqlite
"""
