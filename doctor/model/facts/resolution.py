"""The fact of how the loader would resolve each library that TensorFlow opens."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.facts.copies import Copy
from tfgpu_doctor.model.redaction import FilePath, Text, Version


class ResolvedLibrary(Fact, frozen=True):
    """One library, resolved as the loader would: the copy that it takes, or why it takes none.

    `found` means that the library and all its dependencies exist. `missing_chain` leads from the library to
    the file that is missing, both included; it has one entry if the library itself is not found.
    """

    soname: FilePath
    found: bool
    needed_by_tensorflow: bool  # whether GPUs are not registered, or their operations fail, without it
    asked_by: FilePath = ""  # the library that opens it; empty for TensorFlow itself
    path: FilePath = ""  # as the loader names it
    real_path: FilePath = ""
    version: Version = ""
    origin: Text = (
        ""  # what provides it: "pip: nvidia-cusolver-cu12 11.7.1.2", "conda", "system", "toolkit: /usr/local/cuda"
    )
    wheel: Text = ""  # "nvidia-cudnn-cu12==9.3.0.75", whose RECORD lists the file that is missing or damaged
    found_by: Text = ""  # "LD_LIBRARY_PATH", "RUNPATH", "RPATH", "LD_PRELOAD", "ld.so.cache", "default folder"
    error: Text = ""  # why an existing file cannot be loaded: "it is truncated: 12 of 340 MiB"
    missing_chain: tuple[FilePath, ...] = ()
    shadowed: tuple[FilePath, ...] = ()  # copies that the loader would take if the first were gone
    elsewhere: tuple[FilePath, ...] = ()  # copies outside of the loader's path, of the file that is missing

    @property
    def chain(self) -> tuple[str, ...]:
        """From the library down to the file that is missing, both included."""
        return self.missing_chain or (self.soname,)


class Resolution(Fact, frozen=True):
    """Every library that this TensorFlow opens at run time, resolved without opening any."""

    opener: FilePath = ""  # the TensorFlow library that calls dlopen, and whose RUNPATH counts
    search_folders: tuple[FilePath, ...] = ()  # that RUNPATH's folders, `$ORIGIN` replaced
    libraries: tuple[ResolvedLibrary, ...] = ()
    copies: tuple[Copy, ...] = ()  # of these and what they need: those that cannot be loaded or hide another copy

    def find(self, soname: str) -> ResolvedLibrary | None:
        """The library of that name."""
        return next((library for library in self.libraries if library.soname == soname), None)

    @property
    def missing(self) -> tuple[ResolvedLibrary, ...]:
        """The libraries that TensorFlow needs and that the loader cannot find."""
        return tuple(each for each in self.libraries if each.needed_by_tensorflow and not each.found)

    @property
    def lost_later(self) -> tuple[ResolvedLibrary, ...]:
        """What a library that is found opens only when an operation asks for it, and does not find: cuDNN's libnvrtc."""
        found = {each.soname for each in self.libraries if each.found}
        return tuple(
            each
            for each in self.libraries
            if not each.needed_by_tensorflow and not each.found and each.asked_by in found
        )
