"""What the command line prints: the live view, progress lines, the summary, logs and tables.

`terminal` is the way to the screen; the others make lines. Must not know how a run works.
"""
