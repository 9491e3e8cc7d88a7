"""Links between workers: sessions, frames and queues, in memory or over ZeroMQ.

`peers.Peers` holds one `peer` for each worker. `codec` makes bytes of a frame; `carrier` and `zeromq` move them. Must
not know tasks beyond their queues, nor what a tuple means.

Only zap, zeromq import: zmq
Imports nothing of: topology.storage, topology.runtime.state, topology.runtime.checkpoints, topology.runtime.worker,
  topology.runtime.tasks.outbox, topology.runtime.tasks.spout_task
"""
