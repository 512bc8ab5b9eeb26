"""Metrics and pictures that take less time, for tests in which they are not what is tested."""

from precall.metrics.cells import clusters, local_curves
from precall.metrics.classifiers import held_out, permutation
from precall.metrics.members import gaussians, trees
from precall.metrics.members.panel import Panel

FEW = ("discriminant", "edges", "rank_quadratic")
SMALL = "PRECALL_TESTS_SMALL"  # set for the commands that tests start, to the names of what was made quick


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
    """Grow a sixth of the trees, take a third of the steps of mixtures, and permute scores 2,000 times, until the patch
    is undone.

    All trees take half of the time to train a panel, and up to 9,999 permutations a tenth of a second per classifier.
    """
    patch.setattr(trees, "TREES", 10)
    patch.setattr(gaussians, "STEPS", 5)
    patch.setattr(permutation, "_permutations", lambda n: 2000)


def make_blank(patch):
    """Leave pictures of curves empty, until the patch is undone: to draw one takes as long as a small assessment."""
    from precall.report import figures

    saved = figures.saved
    empty = lambda figure, format, *, dpi: (  # noqa: E731
        b"\x89PNG\r\n\x1a\n" if format == "png" else saved(figure, format, dpi=dpi)
    )
    patch.setattr(figures, "saved", empty)
