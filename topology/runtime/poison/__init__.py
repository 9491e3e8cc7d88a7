"""Finds the message that takes its worker down: suspects are tried one at a time, and the guilty one is given up.

`trials` runs the trials of one worker, `suspects` decides who is tried, `turns` lets one worker try at a time. Must not
know how a process dies.
"""
