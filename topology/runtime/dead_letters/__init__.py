"""Dead letters: messages that are no longer replayed, stored with the reason, read by bolts, and replayed on demand.

`bury` stores a letter. `deliveries` and `subscribers` bring it to bolts that read it. `replay` emits it again.
`queries` answers commands. Must not know how a letter is stored.
"""
