"""One task of a spout or a bolt: what it reads, runs, emits and acks. The hot path is here.

A spout task polls, begins a tree for each message and keeps it until it is done; an executor takes a slice of its
queue, runs the bolt and emits through an outbox. Must not know processes, sockets or stores: `interfaces` is what it
sees."""
