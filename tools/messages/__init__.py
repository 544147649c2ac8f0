"""The modules of tools/read_messages.py."""
