"""`Directory`: the lines of all files of a folder, each file once.

`listing` finds files, `content` reads one, `finished` remembers those that are done, and `tidying` deletes or moves
them. `spout` decides which file is read next. Must not know what a line means.

Imports nothing of: spouts.broker, spouts.listeners, topology.runtime, socket
"""
