"""Find the cause in a log: match lines to signatures, then signatures and context to causes."""
