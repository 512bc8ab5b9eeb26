"""One hypothesis profile for all: no deadline (shared machines), same examples every run."""

import matplotlib
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")
settings.register_profile(
    "precall", deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("precall")
