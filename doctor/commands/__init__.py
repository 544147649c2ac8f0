"""The commands, one module each, imported when asked for: start-up is a feature."""
