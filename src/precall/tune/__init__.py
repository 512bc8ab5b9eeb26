"""Train or fine-tune a generator at the precision/recall trade-off you choose, a dial λ. Names load when used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precall.lazy import lazily

if TYPE_CHECKING:
    from precall.tune.data import TrainingData as TrainingData
    from precall.tune.data import load_data as load_data
    from precall.tune.objectives import FGAN as FGAN
    from precall.tune.objectives import Area as Area
    from precall.tune.objectives import DensityPR as DensityPR
    from precall.tune.objectives import FlowGAN as FlowGAN
    from precall.tune.objectives import Hinge as Hinge
    from precall.tune.objectives import OBRSObjective as OBRSObjective
    from precall.tune.objectives import PRObjective as PRObjective
    from precall.tune.objectives import Scheduled as Scheduled
    from precall.tune.objectives import naive_dual as naive_dual
    from precall.tune.recipes import Recipe as Recipe
    from precall.tune.recipes import recipe as recipe
    from precall.tune.score_matching import ScoreMatching as ScoreMatching
    from precall.tune.trainer import Settings as Settings
    from precall.tune.trainer import Trainer as Trainer
    from precall.tune.watch import TrainingStopped as TrainingStopped

_HOME = {
    "Area": "objectives",
    "DensityPR": "objectives",
    "FGAN": "objectives",
    "FlowGAN": "objectives",
    "Hinge": "objectives",
    "OBRSObjective": "objectives",
    "PRObjective": "objectives",
    "Recipe": "recipes",
    "Scheduled": "objectives",
    "ScoreMatching": "score_matching",
    "Settings": "trainer",
    "Trainer": "trainer",
    "TrainingData": "data",
    "TrainingStopped": "watch",
    "load_data": "data",
    "naive_dual": "objectives",
    "recipe": "recipes",
}

__all__ = [
    "FGAN",
    "Area",
    "DensityPR",
    "FlowGAN",
    "Hinge",
    "OBRSObjective",
    "PRObjective",
    "Recipe",
    "Scheduled",
    "ScoreMatching",
    "Settings",
    "Trainer",
    "TrainingData",
    "TrainingStopped",
    "load_data",
    "naive_dual",
    "recipe",
]

__getattr__, __dir__ = lazily(__name__, _HOME)
