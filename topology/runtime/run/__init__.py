"""Shared by both kinds of run: the state directory at the start, signals, the report at the end, the command socket.

`startup` opens and checks before anything is emitted. Must not know workers' processes.
"""
