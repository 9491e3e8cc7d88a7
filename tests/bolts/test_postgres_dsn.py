"""What is said of a connection string, and of errors that quote it, has nothing secret in it (S12)."""

import pytest
from psycopg import OperationalError
from psycopg.pq import Conninfo

from bolts.sinks.postgres.dsn import Dsn
from topology.secrets import SHOWN

CANARY = "kanarien  vogel\t7f3a"
KNOWN = {option.keyword.decode() for option in Conninfo.get_defaults()}


@pytest.mark.parametrize("name", ["password", "sslpassword", "oauth_client_secret", "scram_client_key"])
def test_s12_no_secret_parameter_is_repeated_however_much_space_is_in_it(name: str) -> None:
    if name not in KNOWN:
        pytest.skip(f"this libpq has no {name}")
    dsn = Dsn(f"host=127.0.0.1 dbname=test {name}='{CANARY}'")
    said = dsn.said(OperationalError(f"can't make sense of\n  {CANARY}, at all"))
    assert said == f"can't make sense of {SHOWN}, at all"
    for part in ("kanarien", "vogel", "7f3a"):
        assert part not in said
        assert part not in repr(dsn)
        assert part not in dsn.where
