"""Log precision and recall of generated texts while a `transformers` Trainer trains: a callback of twenty lines."""

import sys
from types import SimpleNamespace

import numpy as np
import torch

import precall

try:
    from transformers import GPT2Config, GPT2LMHeadModel, TrainerCallback
except ImportError as error:
    print(f"`pip install transformers` to run this example ({error}).")
    sys.exit(0)


class PrecallCallback(TrainerCallback):
    """Compares draws of the model with held-out data at every evaluation.

    Args:
        real: held-out samples, in a form that `precall.assess` accepts.
        draw: `draw(model, n)` returns n samples in the same form.
    """

    def __init__(self, real, draw):
        self.real, self.draw = real, draw

    def on_evaluate(self, args, state, control, model=None, **kwargs):
        """Add the scores to the log of the trainer, which its loggers report."""
        with torch.no_grad():
            fake = self.draw(model.eval(), len(self.real))
        scores = precall.assess(real=self.real, fake=fake, metrics=("neighbors",)).scores
        numbers = {f"eval_{name}": scores[name].value for name in ("precision", "recall")}
        state.log_history.append({**numbers, "step": state.global_step})
        model.train()


def draw(model, n):
    """n texts of six tokens, as counts of each token."""
    rows = torch.zeros(n, 1, dtype=torch.long)
    for _ in range(6):
        rows = torch.cat([rows, torch.multinomial(model(rows).logits[:, -1].softmax(1), 1)], 1)
    return counts(rows[:, 1:])


def counts(rows):
    """Texts as features; for prose, return the texts and use a sentence encoder."""
    return torch.nn.functional.one_hot(rows, 8).sum(1).numpy().astype(np.float32)


torch.manual_seed(0)
sizes = {"vocab_size": 8, "n_positions": 8, "n_embd": 16, "n_layer": 1, "n_head": 2}
model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
callback = PrecallCallback(counts(torch.randint(1, 5, (300, 6))), draw)
# Trainer(model=model, …, callbacks=[callback]).train() calls it at each evaluation; here it is called once
state = SimpleNamespace(log_history=[], global_step=0)
callback.on_evaluate(None, state, None, model=model)
print(state.log_history[-1])
