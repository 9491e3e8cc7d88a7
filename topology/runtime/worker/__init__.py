"""A worker: its tasks, trees, links and store, put together, kept in order, and closed. In whichever process it is.

`build` makes the tasks, `worker.Worker` holds them, `housekeeping` does what is due, `shutdown` closes in order,
`blocked_loop` names the line that blocks the loop. Must not know supervisors or sockets.

Imports nothing of: socket, zmq, topology.runtime.links.zeromq, topology.runtime.embedded, topology.runtime.process,
  topology.runtime.supervisor, topology.runtime.run
"""
