"""The command `kedge`: reads options, loads a topology, runs it, shows what happens. Nothing else imports this."""
