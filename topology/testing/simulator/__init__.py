"""The simulator: run a user's topology through crashes, lost frames and failing disks, all from one seed.

`simulate` runs it and compares with a run without faults (`expected`). `faults` are drawn; `disk` and `files` fail.
Must not know real processes.

Imports nothing of: subprocess, multiprocessing, topology.runtime.process, topology.runtime.supervisor
"""
