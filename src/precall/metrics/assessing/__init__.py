"""From samples to an assessment: `assess`, `Reference`, the run of one model, its assembly, and the registry.

No metric is computed here itself.
"""
