"""One hypothesis profile for all: no deadline (shared machines), same examples every run."""

import signal

import matplotlib
from hypothesis import HealthCheck, settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell that runs the tests in the background has it ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)


matplotlib.use("Agg")
settings.register_profile(
    "precall", deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("precall")
