"""Prompted models: samples that answer prompts, compared as pairs (prompt, answer) and within each prompt.

    matching   which samples answer the same prompts, and features of these prompts
    within     how different the answers to one prompt are
    pairs      the curve of the pairs, and whether the features show the prompt at all

What follows from these scores is said in `verdict.py`. Reading prompts from files belongs to `samples`, not here. See
docs/theory.md, Prompts.
"""
