"""The fact of what the files of the working folder ask for."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import FilePath, Text


class ProjectRequirement(Fact, frozen=True):
    """A few words of a file: "tensorflow-gpu==2.12.0" of requirements.txt, "driver: nvidia" of compose.yaml."""

    file: FilePath
    words: Text


class Project(Fact, frozen=True):
    """What the files of the working folder say of TensorFlow and of GPUs, in their own words; nothing else of them."""

    requirements: tuple[ProjectRequirement, ...] = ()  # TensorFlow's and Keras's packages
    gpu_containers: tuple[ProjectRequirement, ...] = ()  # files for containers that ask for a GPU
