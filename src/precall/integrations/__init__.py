"""precall inside other tools: torchmetrics, Lightning, experiment loggers, scikit-learn's way of drawing.

Each module needs its tool and nothing else here needs the modules.
"""
