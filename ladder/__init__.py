"""The ladder: the same result by one idea more a step, measured side by side."""
