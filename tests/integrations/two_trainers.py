"""A Lightning module validated by two processes, both seeded alike, as `seed_everything` does.

python two_trainers.py OUT: each process writes to OUT.<rank> the features it assessed, its scores, and torch's state
before and after.
"""

import sys
import warnings
from unittest.mock import patch

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from precall.integrations import lightning
from precall.metrics.assessing.assessment import assess

REAL = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))


class Normal(pl.LightningModule):
    """Draws from the global generator of torch."""

    def validation_step(self, batch, index):
        pass

    def sample(self, n):
        return torch.randn(n, 2)


class Watched(lightning.AssessSamples):
    """Writes what it assessed, and whether it changed the state of torch's global generator."""

    out = None

    def on_validation_epoch_end(self, trainer, pl_module):
        before, found = torch.get_rng_state(), {}
        with patch.object(lightning, "assess", lambda **given: found.update(given) or assess(**given)):
            super().on_validation_epoch_end(trainer, pl_module)
        scores = {name: score.value for name, score in self.assessment.scores.items()}
        found = {"real": found["real"], "fake": found["fake"], "scores": scores}
        torch.save({**found, "before": before, "after": torch.get_rng_state()}, f"{self.out}.{trainer.global_rank}")


def main(out):
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    pl.seed_everything(3, verbose=False)
    callback = Watched(n=120, metrics=("neighbors",))
    callback.out = out
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    # forked, because importing Lightning again takes ten seconds
    run = pl.Trainer(devices=2, accelerator="cpu", strategy="ddp_fork", logger=False, callbacks=[callback], **quiet)
    run.validate(Normal(), DataLoader(TensorDataset(REAL), batch_size=16), verbose=False)


if __name__ == "__main__":
    main(sys.argv[1])
