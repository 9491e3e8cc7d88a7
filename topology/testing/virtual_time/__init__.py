"""Virtual time for tests: an event loop whose clock jumps, and workers that die in it as processes do.

`loop` is the loop, `process` a simulated process, and `crashing_run` a run of several. Must not know what is tested.

Imports nothing of: subprocess, multiprocessing, topology.runtime.process, topology.testing.simulator
"""
