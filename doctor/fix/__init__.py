"""Repair: apply the fix for a cause inside the target environment, verify it, and undo it on request."""
