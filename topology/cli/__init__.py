"""The command `kedge`: reads options, loads a topology, runs it, and shows what happens.

`main` finds the command in `commands`; `run_session` runs a topology, `run_client` speaks to a run, `output` prints.
Nothing else imports this. Must not know how a run works.
"""
