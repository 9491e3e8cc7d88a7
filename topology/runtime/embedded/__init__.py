"""A run in one process: one worker in the caller's event loop, started, watched, drained and closed.

`run.EmbeddedRun` is the whole of it. Must not know processes, nor the command line.
"""
