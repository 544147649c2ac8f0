"""Programs that run in a separate child process, for settings that TensorFlow reads only once, at its start."""
