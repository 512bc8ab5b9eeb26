"""From samples to an assessment: `assess`, `Reference`, runs and the registry. No metric is computed here itself."""
