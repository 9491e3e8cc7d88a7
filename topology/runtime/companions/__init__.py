"""Companions: processes that a topology declares, and that a run starts beside itself, watches and ends.

`companions` starts them in order, `process` is one of them, and `guard` ends it if the run is gone. Must not know what
they do.

Imports nothing of: bridge, topology.runtime.tasks, topology.runtime.worker, topology.storage
"""
