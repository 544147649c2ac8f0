"""Programs that run in a child of their own: for what TensorFlow takes up once, when it starts."""
