"""`--engine spark`: the bolts of a topology run in Spark's micro-batches, its spouts in Kedge.

`engine` checks the topology and derives the one that Kedge runs. `driver`, `query` and `run` are the driver's side;
`stage` and `rows` run bolts in Spark's processes. Must not know a user's topology beyond its declaration.

Imports nothing of: bridge.compare
"""
