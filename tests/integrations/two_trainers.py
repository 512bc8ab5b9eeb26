"""A Lightning module validated by two processes, both seeded alike, as `seed_everything` does.

python two_trainers.py OUT: each process writes to OUT.<rank> the features it assessed, its scores, and torch's state
before and after.
"""

import sys
import warnings

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from precall.integrations import lightning

REAL = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))


class Normal(pl.LightningModule):
    """Draws from the global generator of torch."""

    def validation_step(self, batch, index):
        pass

    def sample(self, n):
        return torch.randn(n, 2)


class Watched(lightning.AssessSamples):
    """Records whether it changed the state of torch's global generator."""

    def on_validation_epoch_end(self, trainer, pl_module):
        self.before = torch.get_rng_state()
        super().on_validation_epoch_end(trainer, pl_module)
        self.after = torch.get_rng_state()


def main(out):
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    pl.seed_everything(3, verbose=False)
    assessed = {}
    assess = lightning.assess
    lightning.assess = lambda **given: assessed.update(real=given["real"], fake=given["fake"]) or assess(**given)
    callback = Watched(n=120, metrics=("neighbors",))
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    run = pl.Trainer(devices=2, accelerator="cpu", strategy="ddp", logger=False, callbacks=[callback], **quiet)
    run.validate(Normal(), DataLoader(TensorDataset(REAL), batch_size=16), verbose=False)
    scores = {name: score.value for name, score in callback.assessment.scores.items()}
    torch.save(
        {**assessed, "scores": scores, "before": callback.before, "after": callback.after}, f"{out}.{run.global_rank}"
    )


if __name__ == "__main__":
    main(sys.argv[1])
