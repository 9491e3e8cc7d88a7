"""Bytewax 0.21: a dataflow of its own operators, file source and file sink, run by `python -m bytewax.run`."""
