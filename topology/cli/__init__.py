"""The command `kedge`: reads options, loads a topology, runs it, and shows the run.

`main` finds the command in `commands`. `run_session` runs a topology, `run_client` sends commands to a run, and
`output` prints. Other packages must not import this one. Must not know how a run works.
"""
