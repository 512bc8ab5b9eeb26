"""Parts that several experiments share, each in one place.

`arguments` parses the command line, `parallel` runs many cases, `summaries` averages over seeds, `saving` writes the
JSON file and the figure, `networks` builds the small GANs, `truncation` narrows their latents, `eight_gaussians` and
`mixtures` hold data whose densities are known.
"""
