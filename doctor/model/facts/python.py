"""Facts of the target: its interpreter and packages, the TensorFlow wheel, and TensorFlow at run time."""

from __future__ import annotations

import os
from typing import Literal

from tfgpu_doctor.model.facts.attempt import Attempt, Fact
from tfgpu_doctor.model.facts.copies import Copy
from tfgpu_doctor.model.redaction import Count, FilePath, Line, ModelName, Number, PackageName, Text, Variable, Version


class Distribution(Fact, frozen=True):
    """An installed distribution: canonical name, version, its folder, and its installer."""

    name: PackageName
    version: Version
    folder: FilePath = ""
    installer: PackageName = ""
    requires: tuple[Text, ...] = ()  # read for TensorFlow and torch only


class Target(Fact, frozen=True):
    """The Python environment being diagnosed, queried through its own interpreter."""

    attempt: Attempt
    executable: FilePath = ""
    version: Version = ""
    bits: Count = 0
    implementation: Literal["", "cpython", "pypy", "graalpy", "other"] = ""  # empty in records of older doctors
    free_threaded: bool = False  # built without the global interpreter lock: 3.13t
    prefix: FilePath = ""
    base_prefix: FilePath = ""
    search_path: tuple[FilePath, ...] = ()
    working_folder: FilePath = ""
    user_site: FilePath = ""
    externally_managed: bool = False
    breaks_system_packages: bool = False  # PIP_BREAK_SYSTEM_PACKAGES tells pip to install all the same
    extends: FilePath = ""  # the environment that `uv run --with` laid this one over, which it deletes at its end
    beside: FilePath = ""  # another environment, .venv in the working folder
    is_of_one_tool: bool = False  # pipx, `uv tool` or `uvx` made it for one program and what that needs
    conda_packages: dict[PackageName, Text] = {}  # conda-meta's tensorflow and cuda records: name to version and build
    distributions: tuple[Distribution, ...] = ()
    tensorflow_file: FilePath = ""  # what `import tensorflow` would run
    tensorflow_owners: tuple[PackageName, ...] = ()  # distributions whose RECORD lists tensorflow/__init__.py
    local_modules: tuple[FilePath, ...] = ()  # modules in the working folder that hide others of the same name
    nvidia_libraries: tuple[FilePath, ...] = ()  # shared libraries from pip's nvidia-* wheels
    exports: dict[
        Variable, Text
    ] = {}  # library path and XLA's flags that activating it sets, as its scripts write them

    def find(self, name: str) -> Distribution | None:
        """The distribution of that canonical name that comes first on the search path."""
        return next((found for found in self.distributions if found.name == name), None)

    @property
    def rejects_pip(self) -> bool:
        """Whether pip refuses to install into it."""
        return self.externally_managed and not self.breaks_system_packages

    @property
    def lasting_python(self) -> str:
        """The interpreter to install with: what is installed into a layer of `uv run --with` is gone when that ends."""
        if not self.extends:
            return self.executable
        on_windows = self.executable.lower().endswith(".exe")
        return os.path.join(self.extends, *(("Scripts", "python.exe") if on_windows else ("bin", "python3")))

    @property
    def is_doctors_own(self) -> bool:
        """Whether pipx or uv made it for the doctor alone: no user's program runs in it."""
        return self.is_of_one_tool and self.find("tfgpu-doctor") is not None


class TensorFlow(Fact, frozen=True):
    """The TensorFlow wheel, read from its files without importing it."""

    version: Version
    distribution: PackageName = ""  # "tensorflow", "tensorflow-cpu", "tf-nightly", ...
    folder: FilePath = ""  # of the package
    built_with_cuda: bool | None = None
    cuda_version: Version = ""  # "12.5.1"; "12" where the build does not say it (2.22), but the wheel's requirements
    cudnn_version: Version = ""
    cuda_named_by: Text = "its build_info.py"  # or the requirement
    compute_capabilities: tuple[Text, ...] = ()  # "sm_80", "compute_90": what its kernels are compiled for
    wheel_tag: Text = ""
    runpath: tuple[FilePath, ...] = ()


class LibraryLoad(Fact, frozen=True):
    """A library that TensorFlow opened, or failed to open, according to its log."""

    soname: FilePath
    opened: bool
    error: Text = ""


class Computation(Fact, frozen=True):
    """One operation, placed on a device with soft placement off, and its result compared with the CPU's."""

    operation: Text  # "matmul", "convolution"
    device: Text  # requested
    placed_on: Text = ""  # the device of the result, according to TensorFlow
    seconds: Number = 0.0
    largest_error: Number | None = None  # compared with the CPU, relative to the largest magnitude
    error: Text = ""

    @property
    def is_right(self) -> bool:
        """Placed as requested, and equal to the CPU's result within 1 part in 1000 (TF32 keeps 10 bits)."""
        close = self.largest_error is not None and self.largest_error <= 1e-3
        return close and not self.error and self.is_in_place

    @property
    def is_in_place(self) -> bool:
        """Whether the result is on the requested device: "/GPU:0" is ".../device:GPU:0" to TensorFlow."""
        return self.placed_on.endswith(self.device.removeprefix("/"))


class TensorFlowGpu(Fact, frozen=True):
    """A device of `tf.config.list_physical_devices("GPU")`, with its details."""

    name: Text
    description: ModelName = ""
    compute_capability: Version = ""
    memory_growth: bool | None = None  # as found


class Runtime(Fact, frozen=True):
    """TensorFlow imported and used in a child process of the target."""

    attempt: Attempt
    version: Version = ""
    import_error: Text = ""
    import_traceback: tuple[Line, ...] = ()
    copies: tuple[Copy, ...] = ()  # modules in the failed import that hide another one, the likeliest culprit first
    import_seconds: Number = 0.0
    gpus: tuple[TensorFlowGpu, ...] = ()
    only_listed: bool = False  # nothing was to be computed: the driver is a simulated one
    growth_set: bool = False  # whether memory growth was enabled for every GPU
    gpus_listed: bool = False  # whether the listing was reached: otherwise, an empty list has no meaning
    use_error: Text = ""  # the exception from listing or describing the GPUs
    libraries: tuple[LibraryLoad, ...] = ()
    computations: tuple[Computation, ...] = ()
    log: tuple[Line, ...] = ()
    changed_variables: dict[Variable, Text] = {}  # the environment variables that importing TensorFlow changed

    @property
    def computes(self) -> bool:
        """Whether at least one operation was tried, and all were correct."""
        return bool(self.computations) and all(each.is_right for each in self.computations)

    def log_lines(self, *fragments: str) -> tuple[str, ...]:
        """Lines of the log that contain any of the fragments."""
        return tuple(line for line in self.log if any(fragment in line for fragment in fragments))
