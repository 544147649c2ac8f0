"""The variables that choose the GPUs of a child process, among those that are visible here."""

from __future__ import annotations

import os

VARIABLE = "CUDA_VISIBLE_DEVICES"
NO_GPU = {VARIABLE: "-1"}  # else TensorFlow opens a context on each GPU, even on those that others use


def only_gpu(place: int) -> dict[str, str]:
    """Return the variables with which only the GPU of that place is visible, of those visible here."""
    here = [word.strip() for word in os.environ.get(VARIABLE, "").split(",") if word.strip()]
    return {VARIABLE: here[place] if place < len(here) else str(place)}
