"""Plain pyzmq: one process per stage, PUSH and PULL between them, one message per record, bounded by high-water
marks."""
