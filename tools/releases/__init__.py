"""The parts of tools/read_releases.py."""
