"""The simulator: a user's topology through crashes, lost frames and failing disks, from one seed.

`simulate` runs it and compares with a run in peace (`expected`); `faults` are drawn, `disk` and `files` fail. Must not
know real processes.
"""
