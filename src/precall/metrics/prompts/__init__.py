"""Prompted models: samples that answer prompts, compared as pairs (prompt, answer) and within each prompt.

What follows from these scores is said in `verdict.py`; `samples` reads prompts from files. See docs/theory.md, Prompts.
"""
