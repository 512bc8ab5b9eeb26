"""A panel of few members, for tests in which the panel is not what is tested."""

from precall.metrics.classifiers import held_out, permutation
from precall.metrics.members.panel import Panel

FEW = ("discriminant", "edges", "rank_quadratic")
SMALL = "PRECALL_TESTS_SMALL_COMMITTEE"  # set for the commands that tests start


def make_small(patch):
    """Leave the slow members out wherever none are named, and resample less often, until the patch is undone.

    An assessment of 60 samples then takes a fifth of the time of the whole panel.
    """
    patch.setattr(Panel.__init__, "__defaults__", (FEW, *Panel.__init__.__defaults__[1:]))
    patch.setattr(held_out, "BOOTSTRAPS", 4)
    patch.setattr(held_out, "PERMUTATIONS", 4)
    patch.setattr(permutation, "VALUES", 40_000)
    patch.setattr(permutation, "DRAWS", 199)
