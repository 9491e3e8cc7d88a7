"""The test kit, ours and the users': virtual time, scripted spouts, captured streams, one call for one bolt."""
