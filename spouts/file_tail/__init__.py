"""`FileTail`: the lines of a file that grows, through rotation, truncation and restarts.

`spout` reads, `identity` tells files apart, `rotations` finds rotated ones, `resume` reads what a run before had not
done. Must not know what a line means.
"""
