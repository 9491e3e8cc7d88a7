"""Kedge: the examples' own bolts between a file and a JSON Lines sink, run by `kedge run`."""
