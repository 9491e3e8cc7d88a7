"""Processes as the operating system has them: how to start one, when it may restart, how it ended, what it printed.

`output`, `reap` and `restarts` are for workers and companions. `worker_command` is the command line of a worker, and
the guard (`orphans`, `orphan_guard`) ends workers that outlive their supervisor. Must not know what runs in a process.

Imports nothing of: acker, topology
"""
