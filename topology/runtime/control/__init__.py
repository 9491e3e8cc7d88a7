"""Messages between a supervisor and its workers, and the conversations that end a run or ask about dead letters.

`messages` has every message and its byte form. Must not know sockets, nor who acts on a message.

Imports nothing of: socket, zmq, topology.runtime.worker, topology.runtime.process, topology.runtime.supervisor,
  topology.runtime.run
"""
