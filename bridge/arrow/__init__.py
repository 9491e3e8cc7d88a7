"""Convert records to Arrow columns and back. Must not know Spark, nor where columns are stored."""
