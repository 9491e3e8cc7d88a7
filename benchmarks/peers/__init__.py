"""`make peers`: the same work on Kedge, Bytewax, asyncio queues and plain pyzmq, side by side; see `__main__`.

Each peer has a folder with a script for each workload, as a user of that peer would write it. The scripts run in
environments of their own, which have no Kedge: they import nothing of this project but `work`.
"""
