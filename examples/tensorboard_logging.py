"""Log the scores and the figure of the curve to TensorBoard for each checkpoint."""

import tempfile

import numpy as np
from torch.utils.tensorboard import SummaryWriter

import precall
from precall.integrations.loggers import log_to

rng = np.random.default_rng(0)
reference = precall.Reference.fit(rng.normal(size=(400, 4)))  # work on the real samples is done once

with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
    for step, spread in enumerate((0.3, 0.6, 1.0)):  # the diversity of the model grows
        report = reference.assess(rng.normal(0, spread, (400, 4)), metrics=("clusters", "neighbors", "fid"))
        log_to(writer, report, step=step)
        print(step, "precision", report.scores["precision"], "recall", report.scores["recall"])
    # `tensorboard --logdir <folder>` shows precall/precision, …, precall/curves
