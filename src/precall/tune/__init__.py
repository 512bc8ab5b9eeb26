"""Train or fine-tune a generator at a chosen precision/recall trade-off λ.

This room holds what happens during training: the `objectives` (`PRObjective` among them), their `schedules`, `ascent`,
the training loop (`trainer`) with its checkpoints and monitoring, networks (`models`), training data
(`data`) and complete `recipes`. Refining the samples of a finished model does not belong here: see `precall.improve`,
which this room never imports. Mathematics that needs no network (divergences, tilts) is in
`precall.theory`, and scores are in `precall.metrics`. Names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from precall.lazy import lazily

if TYPE_CHECKING:
    from precall.tune.ascent import capped_ascent as capped_ascent
    from precall.tune.critics import Critics as Critics, FeatureCritic as FeatureCritic, MapCritic as MapCritic
    from precall.tune.data import TrainingData as TrainingData, load_data as load_data
    from precall.tune.objectives import (
        FGAN as FGAN,
        DensityPR as DensityPR,
        OBRSObjective as OBRSObjective,
        PRObjective as PRObjective,
    )
    from precall.tune.recipes import Recipe as Recipe, recipe as recipe
    from precall.tune.schedules import Schedule as Schedule, Scheduled as Scheduled
    from precall.tune.trainer import Settings as Settings, Trainer as Trainer
    from precall.tune.watch import TrainingStopped as TrainingStopped

_MODULES = {
    "ascent": "capped_ascent",
    "critics": "Critics FeatureCritic MapCritic",
    "data": "TrainingData load_data",
    "objectives": "DensityPR FGAN OBRSObjective PRObjective",
    "recipes": "Recipe recipe",
    "schedules": "Schedule Scheduled",
    "trainer": "Settings Trainer",
    "watch": "TrainingStopped",
}
__getattr__, __dir__, __all__ = lazily(__name__, _MODULES)
