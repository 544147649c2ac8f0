"""What the dynamic loader would do, told from files alone: nothing is opened with dlopen."""
