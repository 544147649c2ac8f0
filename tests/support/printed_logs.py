"""What the programs of a recorded machine print, and what its user would state in a ticket."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.kernel import KernelLog, KernelMessage
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml, NvmlGpu
from tfgpu_doctor.model.facts.python import LibraryLoad, Runtime

_MEBIBYTE = 1 << 20
_ABSL = "0000 00:00:1763640000.000000    4242 "  # between the letter of a line of TensorFlow's log and its source file
_NOW = dt.datetime(2026, 11, 20, 12, 0, tzinfo=dt.timezone.utc)
_MOST_COPIES = 64  # of one kernel message
_ERRORS = "tensorflow.python.framework.errors_impl"
_TRACEBACK = "Traceback (most recent call last):"
_SHELL_SAYS = {
    "SIGILL": "Illegal instruction (core dumped)",
    "SIGSEGV": "Segmentation fault (core dumped)",
    "SIGABRT": "Aborted (core dumped)",
    "SIGKILL": "Killed",
}
_COMPUTE_MODES = {"exclusive_process": "E. Process", "exclusive_thread": "E. Thread", "prohibited": "Prohibited"}
_ON_OFF = {True: "On", False: "Off", None: "Off"}
_MIG = {True: "Enabled", False: "Disabled", None: "N/A"}
_NOT_LOADED, _MISMATCH = 9, 18  # NVML's codes


def printed_log(facts: Facts) -> str:
    """The text that a user of this machine would send: the output of the program, of nvidia-smi, and of the kernel."""
    parts = (_of_program(facts), _of_nvidia_smi(facts), _of_kernel(facts.kernel_log))
    return "\n".join("".join(f"{line}\n" for line in part) for part in parts)


def given_context(facts: Facts) -> dict[str, str]:
    """What the user would state with --given."""
    system = facts.system
    words = [system.distribution or system.os, system.architecture, system.board] if system else []
    words += [f"WSL{system.wsl}"] if system and system.wsl else []
    container = facts.container.kind if facts.container else ""
    methods = [
        facts.hosting.service if facts.hosting else "",
        container and (container if container == "docker" else f"{container} container"),
        "docker of snap" if facts.engines and facts.engines.docker_of_snap else "",
        facts.scheduler.kind if facts.scheduler else "",
        "conda" if facts.target and facts.target.conda_packages else "",
    ]
    values = {
        "tensorflow": _release(facts),
        "python": facts.target.version if facts.target else "",
        "os": " ".join(word for word in words if word),
        "driver": _driver_version(facts),
        "gpu": ", ".join(_gpu_names(facts)),
        "install_method": ", ".join(method for method in methods if method),
    }
    return {key: value for key, value in values.items() if value}


def _release(facts: Facts) -> str:
    return (facts.tensorflow.version if facts.tensorflow else "") or (facts.runtime.version if facts.runtime else "")


def _driver_version(facts: Facts) -> str:
    return (facts.driver.version if facts.driver else "") or (facts.nvml.driver_version if facts.nvml else "")


def _gpu_names(facts: Facts) -> list[str]:
    """The names of the GPUs as the user knows them: from a tool, or from the invoice."""
    if facts.nvml and facts.nvml.gpus:
        return [gpu.name for gpu in facts.nvml.gpus]
    if facts.cuda_driver and facts.cuda_driver.gpus:
        return [gpu.name for gpu in facts.cuda_driver.gpus]
    named = [read_knowledge().name_for_id(device.device) for device in facts.pci.nvidia_gpus] if facts.pci else []
    return [name for name in named if name and " or " not in name]


# The program: it imports TensorFlow, lists the GPUs, and computes on each.


def _of_program(facts: Facts) -> Iterator[str]:
    runtime = facts.runtime
    if _runs_containers_only(facts):
        yield from _failed_docker(facts)
        return
    if runtime is None:
        yield from _failed_cuinit(facts)
        return
    said = "\n".join(runtime.log)
    yield from (_library_line(load) for load in runtime.libraries if load.soname not in said)
    for line in runtime.log:
        if "cuInit" not in line:
            yield _log_line(line)
        else:
            yield from _failed_cuinit(facts, line)
    yield from () if runtime.log else runtime.attempt.stderr  # else it repeats the log
    if runtime.import_error:
        yield from _failed_import(facts, runtime)
        yield from _failed_install(facts)
        return
    if "cuInit" not in said and runtime.attempt.answered:
        yield from _failed_cuinit(facts)
    if runtime.use_error:
        yield from (_TRACEBACK, f"{_ERRORS}.{runtime.use_error}")
    elif runtime.gpus_listed:
        yield f"Num GPUs Available:  {len(runtime.gpus)}"
    yield from _created_devices(facts, runtime)
    for error in dict.fromkeys(each.error for each in runtime.computations if each.error):
        yield from (_TRACEBACK, '  File "/home/user/project/train.py", line 9, in <module>', f"{_ERRORS}.{error}")
    if runtime.attempt.signal:
        yield _SHELL_SAYS[runtime.attempt.signal]


def _log_line(line: str) -> str:
    """A line of TensorFlow's log with the prefix that the doctor does not record: `E cuda_dnn.cc:522] ...`."""
    return f"{line[0]}{_ABSL}{line[2:]}" if line[1:2] == " " and ".cc:" in line else line


def _library_line(load: LibraryLoad) -> str:
    if load.opened:
        return _log_line(f"I dso_loader.cc:133] Successfully opened dynamic library {load.soname}")
    return _log_line(f"I dso_loader.cc:144] Could not load dynamic library '{load.soname}'; dlerror: {load.error}")


def _failed_import(facts: Facts, runtime: Runtime) -> Iterator[str]:
    yield from (_TRACEBACK, '  File "/home/user/project/train.py", line 1, in <module>', "    import tensorflow as tf")
    for found in facts.target.distributions if facts.target else ():
        if f"{found.name}." in runtime.import_error:  # its own modules raise it
            yield f'  File "{found.folder}/{found.name}/__init__.py", line 144, in <module>'
    yield from (line for line in runtime.import_traceback if line != runtime.import_error)
    yield runtime.import_error


def _failed_install(facts: Facts) -> Iterator[str]:
    """What pip says where TensorFlow is not installed and cannot be: the user tried."""
    target, pythons = facts.target, {each for row in read_knowledge().tensorflow_releases for each in row.pythons}
    if (
        target is None
        or facts.tensorflow
        or "No module named" not in (facts.runtime.import_error if facts.runtime else "")
    ):
        return
    if target.externally_managed:
        yield from ("error: externally-managed-environment", "", "× This environment is externally managed")
    elif target.version.rpartition(".")[0] not in pythons:
        yield "ERROR: Could not find a version that satisfies the requirement tensorflow (from versions: none)"
        yield "ERROR: No matching distribution found for tensorflow"
    elif facts.project and any("tensorflow-gpu" in each.words for each in facts.project.requirements):
        yield 'The "tensorflow-gpu" package has been removed!'


def _runs_containers_only(facts: Facts) -> bool:
    """Whether this machine is only the host of containers: TensorFlow is in their images."""
    return bool(facts.engines and facts.tensorflow is None and facts.project and facts.project.gpu_containers)


def _failed_docker(facts: Facts) -> Iterator[str]:
    if facts.engines and not facts.engines.toolkit:
        yield 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].'


def _failed_cuinit(facts: Facts, recorded: str = "") -> Iterator[str]:
    """TensorFlow's lines about cuInit; none if it succeeds, or if this TensorFlow does not call it."""
    cuda, tensorflow = facts.cuda_driver, facts.tensorflow
    if not recorded:
        if cuda is None or tensorflow is None or not tensorflow.built_with_cuda or not cuda.attempt.answered:
            return
        if cuda.init_code == 0 or (cuda.init_code is None and not cuda.library_error):
            return
    # Some records were made from others, and keep a line that libcuda contradicts: it was opened, or its code is another.
    is_stale = cuda and cuda.init_code is not None and "(303)" in recorded
    if recorded and not is_stale:
        yield _log_line(recorded)
    elif cuda:
        yield _log_line(f"E cuda_platform.cc:52] failed call to cuInit: {_error_of_cuinit(cuda)}")
    if facts.system and facts.system.os == "Linux" and not any("cuda_diagnostics" in line for line in _log_of(facts)):
        yield from map(_log_line, _diagnostics(facts))


def _log_of(facts: Facts) -> tuple[str, ...]:
    return facts.runtime.log if facts.runtime else ()


def _diagnostics(facts: Facts) -> Iterator[str]:
    """What TensorFlow writes after a failure of cuInit (xla/stream_executor/cuda/cuda_diagnostics.cc)."""
    if facts.driver is None:
        return
    if not facts.driver.version:
        yield (
            "I cuda_diagnostics.cc:145] kernel driver does not appear to be running on this host (host): "
            "/proc/driver/nvidia/version does not exist"
        )
        return
    if facts.device_nodes and not facts.device_nodes.find("/dev/nvidia0"):
        yield "I cuda_diagnostics.cc:152] no NVIDIA GPU device is present: /dev/nvidia0 does not exist"
        return
    hidden = facts.environment.get("CUDA_VISIBLE_DEVICES") if facts.environment else None
    if hidden is not None:
        yield f'I cuda_diagnostics.cc:160] env: CUDA_VISIBLE_DEVICES="{hidden}"'
    if hidden in ("", "-1", "none"):
        value = hidden or "an empty string"
        yield f"I cuda_diagnostics.cc:163] CUDA_VISIBLE_DEVICES is set to {value} - this hides all GPUs from CUDA"
    yield "I cuda_diagnostics.cc:176] retrieving CUDA diagnostic information for host: host"
    loaded = _three_numbers(facts.driver.version)
    library = _version_of_libcuda(facts, loaded)
    if library:
        yield f"I cuda_diagnostics.cc:190] libcuda reported version is: {library}"
    yield f"I cuda_diagnostics.cc:194] kernel reported version is: {loaded}"
    if library == loaded:
        yield f"I cuda_diagnostics.cc:284] kernel version seems to match DSO: {loaded}"
    elif library:
        yield (
            f"E cuda_diagnostics.cc:287] kernel version {loaded} does not match DSO version {library} -- cannot find working "
            "devices in this configuration"
        )


def _version_of_libcuda(facts: Facts, loaded: str) -> str:
    """The version in the name of the file that was opened; a stub's name has none.

    Some records were made from others: the driver's own copy has the module's version, unless NVML says that it has not.
    """
    path = facts.cuda_driver.library if facts.cuda_driver else ""
    copies = facts.driver_libraries.copies if facts.driver_libraries else ()
    found = next((copy for copy in copies if path in (copy.path, copy.real_path)), None)
    is_own = found is not None and found.path.startswith("/usr/lib/")
    if is_own and facts.nvml and facts.nvml.error_code != _MISMATCH:
        return loaded
    written = re.search(r"\.so\.(\d{3}[\d.]+)$", path)
    return _three_numbers((found.version if found else "") or (written[1] if written else ""))


def _three_numbers(version: str) -> str:
    """TensorFlow writes versions of the driver with three numbers: 560.35.03 is 560.35.3."""
    numbers = [str(int(part)) for part in version.split(".")] if version else []
    return ".".join([*numbers, "0"][:3]) if numbers else ""


def _error_of_cuinit(cuda: CudaDriver) -> str:
    prefix = "INTERNAL: CUDA error: Failed call to cuInit: "
    if cuda.library_error:
        return f"{prefix}UNKNOWN ERROR (303)"
    return (
        f"{prefix}{cuda.init_name} ({cuda.init_code})"
        if cuda.init_name
        else f"{prefix}UNKNOWN ERROR ({cuda.init_code})"
    )


def _created_devices(facts: Facts, runtime: Runtime) -> Iterator[str]:
    """The lines with which TensorFlow takes each GPU, before it computes."""
    if not runtime.computations:
        return
    for index, gpu in enumerate(runtime.gpus):
        if not gpu.compute_capability:
            continue  # Metal prints others
        here = facts.cuda_driver.gpus[index] if facts.cuda_driver and index < len(facts.cuda_driver.gpus) else None
        name, capability = (here.name, here.compute_capability) if here else (gpu.description, gpu.compute_capability)
        free = (here.memory_bytes if here else 24 << 30) // _MEBIBYTE
        yield _log_line(
            f"I gpu_device.cc:2020] Created device /job:localhost/replica:0/task:0/device:GPU:{index} with {free * 9 // 10} "
            f"MB memory:  -> device: {index}, name: {name}, pci bus id: {here.pci_address if here else ''}, "
            f"compute capability: {capability}"
        )


# nvidia-smi.


def _of_nvidia_smi(facts: Facts) -> Iterator[str]:
    """The output of `nvidia-smi`; nothing if it hangs."""
    nvml = facts.nvml
    if nvml is None or not nvml.attempt.answered or any(trouble.is_silent for trouble in nvml.troubles):
        return
    if nvml.library_error and not _has_nvidia_smi(facts):
        yield "bash: nvidia-smi: command not found"
    elif nvml.error_code == _NOT_LOADED or (nvml.library_error and _is_not_loaded(facts)):
        yield (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
            "Make sure that the latest NVIDIA driver is installed and running."
        )
    elif nvml.library_error:
        yield (
            "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. "
            "Please make sure that the NVIDIA Display Driver is properly installed and present in your system."
        )
    elif nvml.error_code:
        yield f"Failed to initialize NVML: {nvml.error_text}"
        if nvml.error_code == _MISMATCH:
            yield "NVML library version: 550.127"
    elif nvml.troubles:
        for trouble in nvml.troubles:
            place = f" {trouble.pci_address}" if trouble.pci_address else f"{trouble.index}"
            yield f"Unable to determine the device handle for GPU{place}: {trouble.error_text}"
    elif not nvml.gpus:
        yield "No devices were found"
    else:
        yield from _table(nvml, facts.cuda_driver.cuda_version if facts.cuda_driver else "", _driver_version(facts))


def _has_nvidia_smi(facts: Facts) -> bool:
    """nvidia-smi is a part of the driver: of its libraries, or of the package whose module DKMS builds."""
    libraries, files = facts.driver_libraries, facts.module_files
    return bool((libraries and libraries.copies) or (files and (files.dkms or files.file)))


def _is_not_loaded(facts: Facts) -> bool:
    return facts.driver is not None and not facts.driver.version and not (facts.system and facts.system.wsl)


def _table(nvml: Nvml, cuda: str, driver: str) -> Iterator[str]:
    driver, cuda = nvml.driver_version or driver, cuda or "N/A"
    middle = "+".join("-" * width for width in (41, 24, 22))
    yield f"+{'-' * 89}+"
    yield f"| {f'NVIDIA-SMI {driver}':<34}{f'Driver Version: {driver}':<31}{f'CUDA Version: {cuda}':<22} |"
    yield f"|{middle}|"
    yield "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |"
    yield "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |"
    yield "|                                         |                        |               MIG M. |"
    yield f"|{middle.replace('-', '=')}|"
    for gpu in nvml.gpus:
        yield from _rows_of(gpu)
        yield f"+{middle}+"
    yield from _slices(nvml)
    yield ""
    yield f"+{'-' * 89}+"
    yield "| Processes:                                                                              |"
    yield "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |"
    yield "|        ID   ID                                                               Usage      |"
    yield f"|{'=' * 89}|"
    rows = list(_processes(nvml))
    yield from rows or [f"|  {'No running processes found':<87}|"]
    yield f"+{'-' * 89}+"


def _rows_of(gpu: NvmlGpu) -> Iterator[str]:
    health, total = gpu.health, gpu.memory_total_bytes
    ecc = (
        "N/A" if health.ecc is None else "Off" if not health.ecc.enabled else str(health.ecc.volatile_uncorrected or 0)
    )
    warm = "N/A" if health.temperature.gpu_c is None else f"{health.temperature.gpu_c}C"
    level = "P8" if health.performance_state is None else f"P{health.performance_state}"
    power = f"{_watts(health.power.draw_w)} / {_watts(health.power.enforced_limit_w)}"
    used = f"{_mebibytes(_used(gpu))} / {_mebibytes(total)}"
    load = "N/A" if health.utilization_percent is None else f"{health.utilization_percent}%"
    mode = _COMPUTE_MODES.get(gpu.compute_mode, "Default")
    kept = _ON_OFF[health.persistence_mode]
    yield f"| {gpu.index:>3}  {gpu.name:<26.26} {kept:>7} | {gpu.pci_address.upper():>18} Off | {ecc:>20} |"
    yield f"| N/A  {warm:>4}  {level:>4}  {power:>23} | {used:>22} | {load:>8} {mode:>11} |"
    yield f"| {'':39} | {'':22} | {_MIG[gpu.mig]:>20} |"


def _used(gpu: NvmlGpu) -> int | None:
    if gpu.memory_total_bytes is None or gpu.memory_free_bytes is None:
        return None
    return gpu.memory_total_bytes - gpu.memory_free_bytes


def _watts(power: float | None) -> str:
    return "N/A" if power is None else f"{power:.0f}W"


def _mebibytes(size: int | None) -> str:
    return "N/A" if size is None else f"{size // _MEBIBYTE}MiB"


def _slices(nvml: Nvml) -> Iterator[str]:
    rows = [(gpu, place, device) for gpu in nvml.gpus for place, device in enumerate(gpu.health.mig_devices)]
    if not any(gpu.mig for gpu in nvml.gpus):
        return
    yield ""
    yield f"+{'-' * 89}+"
    yield f"| {'MIG devices:':<87} |"
    yield "| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |"
    yield "|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |"
    yield "|==================+==================================+===========+=======================|"
    if not any(gpu.mig_devices for gpu in nvml.gpus):
        yield f"|  {'No MIG devices found':<87}|"
        yield f"+{'-' * 89}+"
    for gpu, place, device in rows:
        numbers = f"{gpu.index:>3} {device.gpu_instance or 0:>4} {device.compute_instance or 0:>3} {place:>4}"
        used = (device.memory_total_bytes or 0) - (device.memory_free_bytes or 0)
        memory = f"{_mebibytes(used)} / {_mebibytes(device.memory_total_bytes)}"
        yield f"| {numbers} | {memory:>32} | {device.multiprocessors or 14:>2}      0 |  1   0    0    0    0 |"
        yield f"+{'-' * 18}+{'-' * 34}+{'-' * 11}+{'-' * 23}+"


def _processes(nvml: Nvml) -> Iterator[str]:
    for gpu in nvml.gpus:
        for process in gpu.processes:
            kind, name = "C" if process.computes else "G", process.name or "N/A"
            memory = _mebibytes(process.memory_bytes)
            yield f"|  {gpu.index:>3}   N/A  N/A {process.pid:>16} {kind:>6}   {name:<35.35} {memory:>10} |"


# The kernel.


def _of_kernel(log: KernelLog | None) -> Iterator[str]:
    """The messages in the order in which they were written, as the journal shows them."""
    if log is None:
        return
    rows = [(message.boots_ago, -age, message.text) for message in log.messages for age in _ages(message)]
    if log.reach and log.reach.from_boot and log.uptime_s is not None:
        rows.append(
            (0, -log.uptime_s, "Linux version 6.8.0-48-generic (buildd@lcy02) (x86_64-linux-gnu-gcc-13) #48-Ubuntu SMP")
        )
    for _, behind, text in sorted(rows, key=lambda row: (-row[0], row[1])):
        written = (_NOW + dt.timedelta(seconds=behind)).isoformat(timespec="microseconds")
        yield f"{written} host kernel: {text or 'audit: backlog limit exceeded'}"


def _ages(message: KernelMessage) -> list[float]:
    """The age of each copy of a message: the first, and the others at the time of the last."""
    first, last = message.first_age_s or 0.0, message.last_age_s or 0.0
    return [first, *[last] * (min(message.count, _MOST_COPIES) - 1)]
