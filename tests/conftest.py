"""One hypothesis profile for all: no deadline (shared machines), same examples every run."""

import signal

import matplotlib
from hypothesis import HealthCheck, settings

# the background of a shell ignores SIGINT, nohup ignores SIGHUP, and the children of the tests would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

matplotlib.use("Agg")
settings.register_profile(
    "precall", deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("precall")
