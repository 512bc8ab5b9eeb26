"""Scores and the picture of the curve in TensorBoard, checkpoint after checkpoint."""

import tempfile

import numpy as np
from torch.utils.tensorboard import SummaryWriter

import precall
from precall.integrations.loggers import log_to

rng = np.random.default_rng(0)
reference = precall.Reference.fit(rng.normal(size=(400, 4)))  # what is known of the data is worked out once

with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
    for step, spread in enumerate((0.3, 0.6, 1.0)):  # a model that learns to vary
        report = reference.assess(rng.normal(0, spread, (400, 4)), metrics=("clusters", "neighbors", "fid"))
        log_to(writer, report, step=step)
        print(step, "precision", report.scores["precision"], "recall", report.scores["recall"])
    # tensorboard --logdir <folder> shows precall/precision, …, precall/curves
