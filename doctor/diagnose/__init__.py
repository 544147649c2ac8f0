"""From the facts of a machine to the report on it."""
