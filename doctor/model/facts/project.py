"""The fact of the requirements in the files of the working folder."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import FilePath, Text


class ProjectRequirement(Fact, frozen=True):
    """A few words of a file: "tensorflow-gpu==2.12.0" of requirements.txt, "driver: nvidia" of compose.yaml."""

    file: FilePath
    words: Text


class Project(Fact, frozen=True):
    """The statements about TensorFlow and GPUs in the files of the working folder, verbatim; nothing else of them."""

    requirements: tuple[ProjectRequirement, ...] = ()  # TensorFlow's, Keras's and TensorBoard's packages
    gpu_containers: tuple[ProjectRequirement, ...] = ()  # files for containers that request a GPU
