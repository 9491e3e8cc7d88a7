"""A worker process: its start, its loop, its supervisor's orders, and the threads that beat while the loop is busy.

Start at `main`. `orders` obeys orders, and `heartbeat` beats and says at which line the loop is blocked. Must not know
how the supervisor decides.

Imports nothing of: topology.runtime.supervisor, topology.runtime.os_process, topology.runtime.embedded
"""
