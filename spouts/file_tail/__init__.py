"""`FileTail`: the lines of a file that grows, through rotation, truncation and restarts.

`spout` reads, `identity` distinguishes files, `rotations` finds rotated ones, and `resume` finds the lines that an
earlier run left. Must not know what a line means.

Imports nothing of: spouts.match_check, spouts.syslog
"""
