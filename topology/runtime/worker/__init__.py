"""A worker: its tasks, trees, links and store, put together, kept in order, and closed. In whichever process it is.

`build` makes the tasks, `worker.Worker` holds them, `housekeeping` does what is due, `shutdown` closes in order. Must
not know supervisors or sockets.
"""
