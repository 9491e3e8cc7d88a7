"""What each kind of run shares: the state directory at its start, signals, the report at its end, the command socket.

`startup` opens and checks before anything is emitted. Must not know workers' processes.
"""
