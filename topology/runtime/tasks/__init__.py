"""One task of a spout or a bolt: what it reads, runs, emits and acks. `runtime.hot` has the commonest ways.

A spout task polls, begins a tree for each message and keeps it until it is done; an executor takes a slice of its
queue, runs the bolt and emits through an outbox. `marks` says what is kept of a source. Must not know processes,
sockets, nor how a store is written: `interfaces` is what it sees.

Imports nothing of: subprocess, zmq, topology.runtime.links, topology.runtime.worker, topology.runtime.process,
  topology.runtime.supervisor, topology.storage.sqlite, topology.storage.directory
"""
