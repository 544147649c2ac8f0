"""The tables shipped as data under checks/data, read on first use, and typed."""

from tfgpu_doctor.knowledge.reading import Knowledge, read_knowledge, version

__all__ = ["Knowledge", "read_knowledge", "version"]
