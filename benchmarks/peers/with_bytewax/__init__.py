"""Bytewax 0.21: a dataflow of its own operators, file source and file sink, run by `python -m bytewax.run`.

One worker: one file is one partition, which one worker reads, and for steps as small as these its guide on performance
says that exchanging items costs more than a second worker gains.
"""
