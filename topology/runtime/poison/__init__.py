"""Find the message that takes its worker down: try suspects one at a time, and give up the guilty one.

`trials` runs the trials of one worker, `suspects` decides which messages are tried, and `turns` lets one worker try at
a time. Must not know how a process dies.
"""
