"""`ParquetSink`: records in Parquet files, on a disk or in a store of objects. One write is one file, or one for each
partition.

`sink` is the bolt, `store` writes a batch, `table` makes columns of records, `partitions` names the folder of a record,
`places` knows where files are, and `remembered` which rows they have. pyarrow is an extra, imported when the sink
opens. Must not know who reads the files; only `sink` knows batching.

Only sink imports: bolts.sinks.batching
Imports nothing of: bridge, topology.runtime
"""
