"""A worker process: its start, its loop, its supervisor's orders, and the threads that beat while the loop is busy.

Start at `main`. `orders` obeys orders, `heartbeat` beats, and `blocked_loop` names the line that blocks the loop. Must
not know how the supervisor decides.
"""
