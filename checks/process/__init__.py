"""Checks of the process's environment, and which GPUs it may see."""
