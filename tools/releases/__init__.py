"""The modules of tools/read_releases.py."""
