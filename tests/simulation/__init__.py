"""The simulator on our own runtime: random topologies, many seeds, and bugs that are planted to see whether it finds
them. `python -m tests.simulation` runs as many seeds as you like."""
