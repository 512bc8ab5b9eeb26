"""A Lightning callback: precision and recall of a model's samples after each validation epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from precall.integrations.loggers import PREFIX
from precall.metrics.assessment import assess
from precall.metrics.results import Assessment
from precall.theory import checks

try:
    import torch
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.utilities.seed import isolate_rng
except ImportError:
    raise ImportError("precall.integrations.lightning needs Lightning: pip install 'precall[lightning]'.") from None

__all__ = ["AssessSamples"]


class AssessSamples(Callback):
    """Collect real batches during validation, sample the model at its end, log the scores.

    Scores are logged by `pl_module.log_dict` as `precall/<score>`: checkpoints and early stopping can monitor them.
    The last result stays in `assessment`: `precall.integrations.loggers.log_to(trainer.logger, callback.assessment,
    step=trainer.global_step)` draws its curve. Over several processes the samples of all are assessed together; torch's
    own stream is seeded for the sampling, differently in each process, and then goes on as if nothing had been drawn.

    Args:
        n: How many real and how many fake samples to assess, in all: the first ones of the validation set.
        sample: `sample(pl_module, n)` returns n samples of the model; None calls `pl_module.sample(n)`.
        features: What is assessed of a batch of samples, shape (n, d): an encoder; None flattens the samples. It gets
            the samples of a batch: the batch itself, or its first part where it is a tuple, list or dict.
        metrics: As in `precall.assess`; a quick selection by default.
        k: Neighbours that define a ball.
        seed: Seed of everything random in the assessment, and of torch while sampling.

    Attributes:
        assessment: The result of the last validation epoch, or None before it.

    Example:
        >>> callback = AssessSamples(n=500, metrics=("neighbors", "fid", "clusters"))
        >>> # Trainer(callbacks=[callback, ModelCheckpoint(monitor="precall/recall", mode="max")])
    """

    def __init__(
        self,
        *,
        n: int = 1000,
        sample: Callable[[Any, int], Any] | None = None,
        features: Callable[[torch.Tensor], torch.Tensor] | None = None,
        metrics: Iterable[str] = ("neighbors", "fid"),
        k: int = 5,
        seed: int = 0,
    ) -> None:
        self.n, self.k, self.seed, self.metrics = checks.count("n", n), k, seed, tuple(metrics)
        self.sample, self.features = sample or _own_samples, features or _flat
        self.assessment: Assessment | None = None
        self._real: list[torch.Tensor] = []

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Forget the real samples of the last epoch."""
        self._real = []

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keep the features of a batch, until there are enough."""
        missing = _share(self.n, trainer) - sum(map(len, self._real))
        if missing > 0:
            self._real.append(self._encoded(_samples(batch)[:missing]))

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Sample the model, assess, log; not in the sanity check, which sees two batches only."""
        if trainer.sanity_checking:
            return
        with torch.no_grad(), isolate_rng():
            torch.manual_seed(1009 * self.seed + trainer.global_rank)  # alike, all processes would draw the same
            fake = self._encoded(self.sample(pl_module, _share(self.n, trainer)))
        real, fake = _gathered(torch.cat(self._real)), _gathered(fake)
        found: Assessment = assess(real=real, fake=fake, metrics=self.metrics, k=self.k, seed=self.seed)
        self.assessment = found
        scores = {f"{PREFIX}/{name}": score.value for name, score in found.scores.items()}
        pl_module.log_dict(scores)  # each process has all samples, and so the same scores

    def _encoded(self, samples: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return self.features(samples).detach()


def _own_samples(pl_module: Any, n: int) -> Any:
    if not callable(getattr(pl_module, "sample", None)):
        way_out = "Pass `sample=`, a function (pl_module, n) → samples."
        raise ValueError(f"`pl_module` must have a method `sample(n)`; got {type(pl_module).__name__}. {way_out}")
    return pl_module.sample(n)


def _samples(batch: Any) -> torch.Tensor:
    """The samples of a batch: itself, or its first part."""
    if isinstance(batch, dict):
        batch = tuple(batch.values())
    return _samples(batch[0]) if isinstance(batch, tuple | list) else batch


def _flat(samples: torch.Tensor) -> torch.Tensor:
    return samples.flatten(1)


def _share(n: int, trainer: Trainer) -> int:
    """How many of `n` samples each process takes, rounded up."""
    return -(-n // trainer.world_size)


def _gathered(features: torch.Tensor) -> torch.Tensor:
    """The features of all processes; their shares may differ in size."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return features
    from torchmetrics.utilities.distributed import gather_all_tensors  # comes with Lightning

    return torch.cat(gather_all_tensors(features))
