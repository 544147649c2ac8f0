"""The command line: finds the command, its options, where its document goes, its exit code."""
