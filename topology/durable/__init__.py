"""What survives the death of every process: the state directory, one store a worker, and what they hold."""
