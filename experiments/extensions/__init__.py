"""Experiments that reproduce no published figure: the trade-off λ as a dial, and rejection inside a diffusion chain.

`results/` holds the published numbers.
"""
