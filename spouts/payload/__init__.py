"""Payloads: the bytes, or the named texts, that a server gives, and the records that they become.

`decoder.PayloadDecoder` is what a source uses. `object_form` has JSON objects as records. Must not know any server.

Imports nothing of: asyncio, spouts.broker, spouts.file_tail
"""
