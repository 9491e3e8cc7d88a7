"""Moves stored rows to the stores that need them, before a run whose tasks, workers or shape are not those of the last.

`assign` decides, `move` copies, `positions` and `journal` say what goes with what. If interrupted, the next start
completes it. Must not know the runtime.
"""
