"""Plain pyzmq: a process a stage, PUSH and PULL between them, a message a record, bounded by the high-water marks."""
