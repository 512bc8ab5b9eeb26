"""Metrics that take less time, for tests in which they are not what is tested."""

from precall.metrics.cells import clusters, local_curves
from precall.metrics.classifiers import held_out, permutation
from precall.metrics.members import trees
from precall.metrics.members.panel import Panel

FEW = ("discriminant", "edges", "rank_quadratic")
SMALL = "PRECALL_TESTS_SMALL"  # set for the commands that tests start, to the names of what made their metrics quick


def make_small(patch):
    """Leave the slow members out wherever none are named, and resample less often, until the patch is undone.

    An assessment of 60 samples then takes a fifth of the time of the whole panel.
    """
    patch.setattr(Panel.__init__, "__defaults__", (FEW, *Panel.__init__.__defaults__[1:]))
    patch.setattr(held_out, "BOOTSTRAPS", 4)
    patch.setattr(held_out, "PERMUTATIONS", 4)
    patch.setattr(permutation, "VALUES", 40_000)
    patch.setattr(permutation, "DRAWS", 199)


def make_rough(patch):
    """Resample histograms less often, until the patch is undone."""
    for module in (clusters, local_curves):
        patch.setattr(module, "RESAMPLES", 6)


def make_light(patch):
    """Grow a quarter of the trees, until the patch is undone: all of them take half of the time to train a panel."""
    patch.setattr(trees, "TREES", 15)
