"""The command `kedge`: reads options, loads a topology, runs it, and shows the run.

`main` finds the command in `commands`. `run_session` runs a topology, `run_client` sends commands to a run, and
`output` prints. Nothing below the command line imports it; `kedge compare` is a command of another package, and uses
its options and output. Must not know how a run works.

Imports nothing of: topology.runtime.process, topology.runtime.links, topology.runtime.tasks,
  topology.runtime.checkpoints,
  topology.storage.sqlite
"""
