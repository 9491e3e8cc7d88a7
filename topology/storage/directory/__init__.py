"""The state directory: its files, the notes of earlier runs in them, and the check that this run may use them.

`state_dir.StateDir` opens and locks it, `manifest` and `shape` hold the notes, and `checks` compares them with the
files. It makes and opens stores, and must not know what is in a store.

Imports nothing of: topology.storage.encoding, topology.storage.values, topology.storage.rescale, apsw
"""
