"""Facts of the target: its interpreter and packages, the TensorFlow wheel, and TensorFlow at run time."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Attempt, Fact


class Distribution(Fact, frozen=True):
    """An installed distribution: canonical name, version, the folder it lies in, who installed it."""

    name: str
    version: str
    folder: str = ""
    installer: str = ""
    requires: tuple[str, ...] = ()  # read for TensorFlow and torch alone


class Target(Fact, frozen=True):
    """The Python environment being diagnosed, asked through its own interpreter."""

    attempt: Attempt
    executable: str = ""
    version: str = ""
    bits: int = 0
    prefix: str = ""
    base_prefix: str = ""
    search_path: tuple[str, ...] = ()
    working_folder: str = ""
    user_site: str = ""
    externally_managed: bool = False
    conda_packages: dict[str, str] = {}  # conda-meta's tensorflow and cuda records: name to version and build
    distributions: tuple[Distribution, ...] = ()
    tensorflow_file: str = ""  # what `import tensorflow` would run
    tensorflow_owners: tuple[str, ...] = ()  # distributions whose RECORD lists tensorflow/__init__.py
    local_modules: tuple[str, ...] = ()  # modules in the working folder that hide others of the same name
    nvidia_libraries: tuple[str, ...] = ()  # shared libraries that pip's nvidia-* wheels brought
    exports: dict[str, str] = {}  # library path and XLA's flags that activating it sets, as its scripts write them

    def find(self, name: str) -> Distribution | None:
        """The distribution of that canonical name that comes first on the search path."""
        return next((found for found in self.distributions if found.name == name), None)


class TensorFlow(Fact, frozen=True):
    """The TensorFlow wheel, read from its files without importing it."""

    version: str
    distribution: str = ""  # "tensorflow", "tensorflow-cpu", "tf-nightly", ...
    folder: str = ""  # of the package
    built_with_cuda: bool | None = None
    cuda_version: str = ""
    cudnn_version: str = ""
    compute_capabilities: tuple[str, ...] = ()  # as the build names them: "sm_80", "compute_90"
    wheel_tag: str = ""
    runpath: tuple[str, ...] = ()


class LibraryLoad(Fact, frozen=True):
    """A library that TensorFlow opened, or failed to open, as its log says."""

    soname: str
    opened: bool
    error: str = ""


class Computation(Fact, frozen=True):
    """One operation, placed on a device with soft placement off, its result compared with the CPU's."""

    operation: str  # "matmul", "convolution"
    device: str  # asked for
    placed_on: str = ""  # where TensorFlow says that the result lies
    seconds: float = 0.0
    largest_error: float | None = None  # against the CPU, relative to the largest magnitude
    error: str = ""

    @property
    def is_right(self) -> bool:
        """Placed where it was asked for, and equal to the CPU's result within 1 part in 1000 (TF32 keeps 10 bits)."""
        close = self.largest_error is not None and self.largest_error <= 1e-3
        return close and not self.error and self.is_in_place

    @property
    def is_in_place(self) -> bool:
        """Whether the result lies on the device that was asked for: "/GPU:0" is ".../device:GPU:0" to TensorFlow."""
        return self.placed_on.endswith(self.device.removeprefix("/"))


class TensorFlowGpu(Fact, frozen=True):
    """A device of `tf.config.list_physical_devices("GPU")`, with its details."""

    name: str
    description: str = ""
    compute_capability: str = ""
    memory_growth: bool | None = None  # as it was found


class Runtime(Fact, frozen=True):
    """TensorFlow imported and used in a child process of the target."""

    attempt: Attempt
    version: str = ""
    import_error: str = ""
    import_traceback: tuple[str, ...] = ()
    import_seconds: float = 0.0
    gpus: tuple[TensorFlowGpu, ...] = ()
    only_listed: bool = False  # nothing was to be computed: the driver is a simulated one
    growth_set: bool = False  # whether memory growth was switched on for every GPU
    gpus_listed: bool = False  # whether the listing was reached: without it, no GPU means nothing
    use_error: str = ""  # what listing or describing the GPUs raised
    libraries: tuple[LibraryLoad, ...] = ()
    computations: tuple[Computation, ...] = ()
    log: tuple[str, ...] = ()
    changed_variables: dict[str, str] = {}  # what importing TensorFlow changed in the environment

    @property
    def computes(self) -> bool:
        """Whether at least one operation was tried, and all were right."""
        return bool(self.computations) and all(each.is_right for each in self.computations)

    def log_lines(self, *fragments: str) -> tuple[str, ...]:
        """Lines of the log that hold any of the fragments."""
        return tuple(line for line in self.log if any(fragment in line for fragment in fragments))
