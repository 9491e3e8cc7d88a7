"""`kedge compare` without `--set`: `samples.py` beside the topology makes data, which go with the command."""

from pathlib import Path

import pytest

from bridge.compare.workload.sample_data import counted_of, sample_of
from topology.errors import ConfigurationError
from topology.loading.load import load, target_of
from topology.loading.settings import pairs

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
MADE = ("apache_errors", "fraud", "machine_temperature", "silent_hosts", "ssh_alerts")


@pytest.mark.parametrize("name", MADE)
def test_an_example_that_reads_a_file_has_data_made_for_it_which_are_gone_afterwards(name: str) -> None:
    target = str(EXAMPLES / f"{name}.py")
    with sample_of(target) as values:
        given = pairs(values, "--set")
        assert Path(given["path"]).stat().st_size > 500_000
        load(target_of(target), given).validate()
    assert not Path(given["path"]).exists()


def test_the_same_data_are_made_each_time() -> None:
    def made() -> bytes:
        with sample_of(str(EXAMPLES / "ssh_alerts.py")) as values:
            return Path(pairs(values, "--set")["path"]).read_bytes()

    assert made() == made()


def test_a_topology_without_samples_beside_it_is_given_no_settings(tmp_path: Path) -> None:
    (tmp_path / "alerts.py").write_text("")
    with sample_of(str(tmp_path / "alerts.py")) as values:
        assert values == ()


def test_a_users_own_samples_are_called_by_the_name_of_the_topologys_file(tmp_path: Path) -> None:
    (tmp_path / "alerts.py").write_text("")
    (tmp_path / "samples.py").write_text("def alerts(folder):\n    return {'path': str(folder / 'a.log')}\n")
    with sample_of(str(tmp_path / "alerts.py")) as (value,):
        assert value.startswith("path=")
        assert value.endswith("/a.log")


def test_what_a_topology_counts_by_is_said_beside_its_file_or_not_at_all(tmp_path: Path) -> None:
    alerts = str(tmp_path / "alerts.py")
    for name in ("alerts.py", "other.py"):
        (tmp_path / name).write_text("")
    assert counted_of(alerts) == ()
    (tmp_path / "samples.py").write_text("COUNTED = {'alerts': (r'from (?P<host>.*)', 'host')}\n")
    assert counted_of(alerts) == (r"from (?P<host>.*)", "host")
    assert counted_of(str(tmp_path / "other.py")) == ()


@pytest.mark.parametrize("said", ["'host'", "('(?P<host>', 'host')", "('(?P<host>.)', 'user')", "(1, 2)"])
def test_what_is_no_expression_with_that_group_is_refused(tmp_path: Path, said: str) -> None:
    (tmp_path / "alerts.py").write_text("")
    (tmp_path / "samples.py").write_text(f"COUNTED = {{'alerts': {said}}}\n")
    with pytest.raises(ConfigurationError, match=r"COUNTED\['alerts'\] in .* must be a pair"):
        counted_of(str(tmp_path / "alerts.py"))
