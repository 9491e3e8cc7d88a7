"""Dead letters: messages that were given up, kept with their reason, read by bolts, and replayed on demand.

`bury` keeps a letter, `deliveries` and `subscribers` bring it to bolts that read it, `replay` emits it again, `queries`
answers commands. Must not know how a letter is stored.
"""
