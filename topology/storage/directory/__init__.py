"""The state directory: its files, what an earlier run has noted in them, and whether this run may use them.

`state_dir.StateDir` opens and locks it, `manifest` and `shape` hold the notes, `checks` compares them with the files.
Must not know what is in a store.
"""
