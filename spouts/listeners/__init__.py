"""Sources that listen on a port: lines over TCP, and syslog over UDP, TCP and TLS.

`addresses` binds, `tcp` and `udp` receive, and `source` is what both sources share. `syslog_frames` and `syslog_format`
know the protocol of syslog. A listener holds back by not reading. Must not know a client, nor what a record is used
for.

Imports nothing of: spouts.file_tail, spouts.broker, topology.runtime
"""
