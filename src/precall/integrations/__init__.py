"""Integrations with other libraries: torchmetrics, Lightning, experiment loggers and scikit-learn style displays.

This package adapts results and metrics to the interfaces of these libraries. It contains no mathematics of its own, and
only the command line imports it, for `--log`. Each module requires only the library that it integrates.
"""
