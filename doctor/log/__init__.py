"""Read the cause out of a log: lines to signatures, signatures and what is known to causes."""
