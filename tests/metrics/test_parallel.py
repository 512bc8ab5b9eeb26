"""Jobs side by side: their order, their number at once, nested jobs, errors and interruptions."""

import subprocess
import sys
import threading
import time
from functools import partial
from types import ModuleType

import numpy as np
import pytest
import torch

from precall.metrics.inputs import parallel
from precall.metrics.inputs.parallel import go_on, side_by_side
from precall.theory.arrays import is_tensor


class Crowd:
    """Counts how many jobs run at once."""

    def __init__(self):
        self.now, self.most, self.done, self.lock = 0, 0, 0, threading.Lock()

    def job(self, result):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.01)
        with self.lock:
            self.now -= 1
            self.done += 1
        return result


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(parallel, "_cores", lambda: 2)


@pytest.mark.usefixtures("two_cores")
def test_results_keep_the_order_and_as_many_jobs_run_as_there_are_cores():
    crowd, calls = Crowd(), []
    jobs = [partial(crowd.job, i) for i in range(12)]
    assert side_by_side(jobs, lambda *call: calls.append(call)) == list(range(12))
    assert crowd.most == 2
    assert calls == [(done, 12) for done in range(1, 13)]


@pytest.mark.usefixtures("two_cores")
def test_jobs_of_jobs_share_the_same_cores_and_never_wait_for_each_other():
    """With one pool for all levels, two waiting jobs would leave no thread for the jobs that they wait for."""
    crowd = Crowd()

    def outer(i):
        return sum(side_by_side([partial(crowd.job, j) for j in range(4)])) + i

    def outermost(i):
        return sum(side_by_side([partial(outer, j) for j in range(3)])) + i

    assert side_by_side([partial(outermost, i) for i in range(4)]) == [21, 22, 23, 24]
    assert crowd.most == 2


@pytest.mark.usefixtures("two_cores")
def test_the_first_error_in_the_order_of_the_jobs_is_raised_after_all_have_ended():
    crowd = Crowd()

    def fails(seconds, name):
        time.sleep(seconds)
        raise ValueError(name)

    jobs = [partial(crowd.job, 0), partial(fails, 0.05, "first"), partial(fails, 0, "second"), partial(crowd.job, 3)]
    with pytest.raises(ValueError, match="first"):
        side_by_side(jobs)
    assert crowd.done == 2
    assert side_by_side([partial(crowd.job, 1)]) == [1]  # the cores are free again


@pytest.mark.usefixtures("two_cores")
def test_an_interruption_leaves_out_what_has_not_started_at_all_levels():
    crowd = Crowd()

    def interrupt(done, total):
        raise KeyboardInterrupt

    def outer():
        return side_by_side([partial(crowd.job, 0) for _ in range(100)])

    with pytest.raises(KeyboardInterrupt):
        side_by_side([lambda: 0, *[outer] * 20], interrupt)
    assert crowd.done < 200


@pytest.mark.usefixtures("two_cores")
def test_an_interruption_ends_a_long_job_that_asks_whether_to_go_on():
    most, turns = 6000, []  # half a minute at least

    def long():
        while len(turns) < most:
            time.sleep(0.005)
            turns.append(1)
            go_on()

    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        side_by_side([long, lambda: 0], interrupt)
    assert len(turns) < most
    go_on()  # outside of a job, it does nothing


def test_a_half_imported_torch_is_no_trouble(monkeypatch):
    """One metric may import torch while another one asks whether its features are a tensor."""
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    assert not is_tensor(np.zeros(3))


def test_libraries_are_there_before_threads_start():
    assert "torch" in parallel.LIBRARIES
    assert side_by_side([lambda: all(name in sys.modules for name in parallel.LIBRARIES)] * 2) == [True, True]


def test_light_metrics_import_no_heavy_libraries():
    """Which takes seconds: on the CPU, FID needs neither torch nor scikit-learn, and neighbours no scikit-learn."""
    code = """if True:
        import sys
        import numpy as np
        from precall.metrics import assess
        from precall.report.projection import sample_map

        x, y = np.random.default_rng(0).normal(size=(2, 60, 4))
        sample_map(assess(real=x, fake=y, metrics=("fid",)), {})
        print("torch" in sys.modules, "sklearn" in sys.modules)
        assess(real=x, fake=y, metrics=("neighbors", "symmetric", "kid", "fid"))
        print("sklearn" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(torch.cuda.is_available()), "False", "False"]


@pytest.mark.usefixtures("two_cores")
def test_no_more_threads_start_than_there_are_cores():
    """The C library keeps a heap per thread: with 20 threads, 300 assessments grew by 80 MiB."""
    threads = set()

    def job():
        time.sleep(0.01)
        threads.add(threading.get_ident())

    side_by_side([job] * 20)
    assert len(threads) == 2
