"""The diagnosis: from the facts of a machine to the report."""
