"""Data that survives every process: the state directory, one store for each worker, and the forms of what they hold.

A run opens the `directory`, checks its files and compares the topology's shape; `rescale` files rows for new numbers of
tasks and workers; each worker then commits `values` to its `sqlite` store. Must not know the runtime that calls it.
"""
