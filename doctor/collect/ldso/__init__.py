"""A model of the dynamic loader that only reads files: nothing is opened with dlopen."""
