"""Makes `examples` importable: unlike the packages it is not installed."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parents[2]))

# How long an example takes is the machine's, and no property. For all that is collected after this, in one session.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
