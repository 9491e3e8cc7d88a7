"""The hot path: what is done for each tuple and each tree, laid out flat, and compiled where that is possible.

`hot_path` begins, executes, emits and acks; `pending` is the tree of a message. `tuple_columns` has the numbers of
tuples as bytes, and `outputs` what a bolt may return. Must not know tasks' queues beyond `append`, nor workers, links
or state.

Imports nothing of: topology.runtime.tasks, topology.runtime.worker, topology.runtime.links, topology.storage
"""
