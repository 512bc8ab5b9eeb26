"""Improve the samples of a briefly trained `diffusers` pipeline, with two draws per kept sample."""

import sys

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from precall.improve import Ratio, sample
from precall.tune.data import load_data

try:
    from diffusers import DDIMPipeline, DDIMScheduler, UNet2DModel
except ImportError as error:
    print(f"`pip install diffusers` to run this example ({error}).")
    sys.exit(0)

torch.manual_seed(0)
digits = torch.from_numpy(load_data("digits").samples).float() / 127.5 - 1  # (n, 1, 8, 8), in [-1, 1]
unet = UNet2DModel(
    sample_size=8,
    in_channels=1,
    out_channels=1,
    layers_per_block=1,
    block_out_channels=(16, 16),
    norm_num_groups=8,
    down_block_types=("DownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "UpBlock2D"),
)
scheduler = DDIMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.Adam(unet.parameters(), lr=2e-3)
for _ in range(100):
    real = digits[torch.randint(len(digits), (32,))]
    noise, t = torch.randn_like(real), torch.randint(1000, (len(real),))
    loss = (unet(scheduler.add_noise(real, noise, t), t).sample - noise).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

pipeline = DDIMPipeline(unet=unet.eval(), scheduler=scheduler)
pipeline.set_progress_bar_config(disable=True)


def generator(n, rng):
    """Draw n images from the pipeline, shape (n, 8, 8, 1), with values in [0, 1]."""
    seeded = torch.Generator().manual_seed(int(rng.integers(2**63)))
    return pipeline(batch_size=n, generator=seeded, num_inference_steps=5, output_type="np").images


real = (digits.numpy().transpose(0, 2, 3, 1) + 1) / 2
fake = generator(500, np.random.default_rng(1))
samples, labels = np.concatenate([real[:500], fake]), np.arange(1000) < 500
classifier = LogisticRegression(C=1.0).fit(samples.reshape(1000, -1), labels)  # calibrate a stronger classifier
ratio = Ratio.from_classifier(classifier)
plain, kept = (sample(generator, ratio, budget=K, n=100, seed=2) for K in (1, 2))
print(f"{kept.draws} draws from the pipeline for {len(kept.samples)} kept samples")
for name, drawn in (("unselected", plain), ("after OBRS", kept)):
    print(f"{name:12}: median log p/q {np.median(ratio(drawn.samples)):.2f}")
