"""Channels that tell people of alerts: `Slack`, `PagerDuty`, `Alertmanager`, `Email`, one file each.

`channel` is what they share, `grouping` puts alerts together, `templates` makes texts of records. `bolts.sinks.http`
delivers. Must not know rules that raise alerts.

Imports nothing of: spouts, bridge, topology.runtime, bolts.count_within
"""
