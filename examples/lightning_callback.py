"""Log precision and recall after each validation epoch of a Lightning training run."""

import warnings

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader

from precall.integrations.lightning import AssessSamples

warnings.filterwarnings("ignore", message=".*(many workers|number of training batches)")


class Affine(pl.LightningModule):
    """A minimal generative model, x = A z + b with z normal, fitted by maximum likelihood."""

    def __init__(self):
        super().__init__()
        self.A, self.b = torch.nn.Parameter(torch.eye(2)), torch.nn.Parameter(torch.zeros(2))

    def sample(self, n):
        return torch.randn(n, 2) @ self.A.T + self.b

    def training_step(self, x, index):
        z = torch.linalg.solve(self.A, (x - self.b).T)
        return z.square().sum(0).mean() / 2 + torch.linalg.slogdet(self.A).logabsdet

    def validation_step(self, x, index):
        pass

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.03)


pl.seed_everything(0, verbose=False)
x = torch.randn(1500, 2) @ torch.tensor([[2.0, 0.0], [1.0, 0.5]]) + torch.tensor([3.0, -1.0])
data, held_out = DataLoader(x[:1000], batch_size=50), DataLoader(x[1000:], batch_size=50)

callback = AssessSamples(n=500, metrics=("neighbors", "fid"))
options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = pl.Trainer(max_epochs=8, check_val_every_n_epoch=4, accelerator="cpu", callbacks=[callback], **options)
trainer.fit(Affine(), data, held_out)

print({name: round(float(value), 3) for name, value in trainer.callback_metrics.items() if "precall" in name})
