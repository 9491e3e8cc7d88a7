"""The work that every mode gets: a script of messages, read from the topology's own sources, and fed by a schedule.

`read_sources` reads it, `feeder` feeds it, `topology` replaces both ends of the user's. Must not know modes.

Imports nothing of: bridge.compare.modes, bridge.compare.jvm, bridge.compare.report, bridge.compare.rounds
"""
