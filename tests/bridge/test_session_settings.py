"""What a session of a driver is set to, as Spark itself has it."""

from typing import Any

from spark_kit import needs_spark


@needs_spark
def test_spark_draws_no_progress_bars_which_would_fill_the_log(session: Any) -> None:
    """Each is a line without an end, and what is told of a death are the last lines."""
    assert session.sparkContext._jsc.sc().progressBar().isEmpty()
