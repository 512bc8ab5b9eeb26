"""A Lightning callback that computes precision and recall of a model's samples after each validation epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from precall.integrations.loggers import PREFIX
from precall.metrics.assessing.assessment import assess
from precall.metrics.scores.results import Assessment
from precall.networks import evaluating
from precall.theory import checks

try:
    import torch
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.utilities.seed import isolate_rng
except ImportError:
    raise ImportError("precall.integrations.lightning needs Lightning: pip install 'precall[lightning]'.") from None

__all__ = ["AssessSamples"]


class AssessSamples(Callback):
    """Collect real batches during validation, sample the model at the end of the epoch, and log the scores.

    Scores are logged by `pl_module.log_dict` as `precall/<score>`, so that checkpoints and early stopping can monitor
    them. The last result is available as `assessment` (None before the first); `loggers.log_to` logs its curve.

    With several processes, the samples of all processes are assessed together. While the model is sampled, torch's
    random generator is seeded differently in each process; afterwards its state is restored.

    Args:
        n: Total number of real samples, the first ones of the validation set, and of fake samples.
        sample: A function `sample(pl_module, n)` that returns n samples of the model; None calls `pl_module.sample(n)`.
        features: A function (an encoder) from the samples of a batch (or its first element) to features of shape
            (n, d); None flattens the samples.
        metrics: Names of metrics as in `precall.assess`; the default is a fast selection.

    Example: `Trainer(callbacks=[AssessSamples(n=500), ModelCheckpoint(monitor="precall/recall", mode="max")])`
    """

    def __init__(
        self,
        *,
        n: int = 1000,
        sample: Callable[[Any, int], torch.Tensor] | None = None,
        features: Callable[[torch.Tensor], torch.Tensor] | None = None,
        metrics: Iterable[str] = ("neighbors", "fid"),
        k: int = 5,
        seed: int = 0,
    ) -> None:
        self.n, self.k, self.seed, self.metrics = checks.count("n", n), k, seed, tuple(metrics)
        self.sample, self.features = sample or _own_samples, features or (lambda samples: samples.flatten(1))
        self.assessment: Assessment | None = None
        self._real: list[torch.Tensor] = []

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._real = []

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Store the features of a batch until there are `n` samples."""
        missing = _share(self.n, trainer) - sum(map(len, self._real))
        if missing > 0:
            self._real.append(self._encoded(_samples(batch)[:missing]))

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Sample the model, assess the samples and log the scores, except during the sanity check."""
        if trainer.sanity_checking:
            return
        with torch.no_grad(), isolate_rng(), evaluating(pl_module):
            # it differs between processes, and from the plain seeds with which trainings begin
            stream = np.random.SeedSequence(self.seed, spawn_key=(trainer.global_rank, 1))
            torch.manual_seed(int(stream.generate_state(1, np.uint64)[0] >> 1))
            fake = self._encoded(self.sample(pl_module, _share(self.n, trainer)))
        real, fake = _gathered(torch.cat(self._real)), _gathered(fake)
        found: Assessment = assess(real=real, fake=fake, metrics=self.metrics, k=self.k, seed=self.seed)
        self.assessment = found
        scores = {f"{PREFIX}/{name}": score.value for name, score in found.scores.items()}
        pl_module.log_dict(scores)  # every process has all samples and hence the same scores

    def _encoded(self, samples: torch.Tensor) -> torch.Tensor:
        with torch.no_grad(), evaluating(self.features):
            return self.features(samples).detach()


def _own_samples(pl_module: LightningModule, n: int) -> torch.Tensor:
    sample: Callable[[int], torch.Tensor] | None = getattr(pl_module, "sample", None)
    if not callable(sample):
        way_out = "Pass `sample=`, a function (pl_module, n) → samples."
        raise ValueError(f"`pl_module` must have a method `sample(n)`; got {type(pl_module).__name__}. {way_out}")
    return sample(n)


def _samples(batch: Any) -> torch.Tensor:
    """The samples of a batch: the batch itself, or its first element."""
    if isinstance(batch, dict):
        batch = tuple(batch.values())
    return _samples(batch[0]) if isinstance(batch, tuple | list) else batch


def _share(n: int, trainer: Trainer) -> int:
    """Number of samples per process if there are `n` in total, rounded up."""
    return -(-n // trainer.world_size)


def _gathered(features: torch.Tensor) -> torch.Tensor:
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return features
    from torchmetrics.utilities.distributed import gather_all_tensors  # installed with Lightning

    return torch.cat(gather_all_tensors(features))
