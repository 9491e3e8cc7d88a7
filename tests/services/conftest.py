"""What tests of real services are given: a database, a schema of their own in it, a server of their own, a proxy.

A test that needs a service is marked `service("postgres")`, finds it by an environment variable or on its standard
port, and is skipped, with the reason, where there is none. CONTRIBUTING.md says how to start each.
"""

import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bolts"))  # for sink_kit

from postgres_cluster import Cluster, found_initdb
from postgres_kit import NAMED_BY, Database, standard_dsn
from postgres_proxy import PostgresProxy


@pytest.fixture(scope="session")
def postgres_dsn() -> str:
    """A database that the tests may make schemas in."""
    dsn = standard_dsn()
    try:
        psycopg.connect(dsn, connect_timeout=3).close()
    except psycopg.OperationalError as error:
        said = " ".join(str(error).split())
        pytest.skip(f"no PostgreSQL to test with ({said}); CONTRIBUTING.md says how to start one, {NAMED_BY} names it")
    return dsn


@pytest.fixture
def database(postgres_dsn: str) -> Iterator[Database]:
    """A schema of the test's own, dropped at its end."""
    with Database(postgres_dsn, f"kedge_test_{secrets.token_hex(6)}").there() as one:
        yield one


@pytest.fixture
def proxy(database: Database) -> Iterator[PostgresProxy]:
    """Between a sink and the database; `proxy.dsn` leads through it."""
    with PostgresProxy.to(database.dsn) as one:
        yield one


@pytest.fixture(scope="module")
def cluster_home() -> Iterator[Cluster]:
    """A server of this module's own, which tests start, stop and kill as they like. It ends with the module: it is a
    child of this process, and others' tests look at the children that they leave."""
    if found_initdb() is None:
        pytest.skip("no initdb to make a server of its own with: apt install postgresql")
    with Cluster.made() as one:
        yield one


@pytest.fixture
def cluster(cluster_home: Cluster) -> Iterator[Cluster]:
    """That server, running, with the settings that it is made with."""
    cluster_home.start()
    yield cluster_home
    cluster_home.settle()
