"""Import TensorFlow, list its GPUs, and compute on each; memory growth is on, so that no GPU's memory is all reserved.

The first argument is the kind of device to compute on: "GPU", or "CPU" to test only this program. With a second
one, "list", nothing is computed.
"""

from __future__ import annotations

import sys

STARTED_WITH = frozenset(sys.modules)  # what Python itself loads, and a user's program too
import gc  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import site  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402

TYPE_CHECKING = False  # importing typing would take longer than the rest of the program
if TYPE_CHECKING:
    from typing import Any, TextIO

TOLD_EVERY_S = 5.0
SIDE = 256  # of the square matrices; integers up to 4 keep every product and sum exact in TF32 and float32


def open_answer() -> TextIO:
    """The process's original standard output, reserved for the answer; all other output goes to standard error."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answer


ANSWER = open_answer()


def say(**answer: object) -> None:
    ANSWER.write(json.dumps(answer) + "\n")
    ANSWER.flush()


def die_with_parent() -> None:
    """Tell the kernel to kill this process when the doctor exits for any reason (Linux)."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
    except (ImportError, OSError, AttributeError, TypeError):
        pass


def environment_at_start() -> dict[str, str]:
    """The variables that this process was started with: a .pth file or sitecustomize.py may have changed them since."""
    try:
        with open("/proc/self/environ", "rb") as file:
            rows = [os.fsdecode(row).partition("=") for row in file.read().split(b"\0")]
        return {name: value for name, _, value in rows if name}
    except OSError:
        return dict(os.environ)


def last_line(error: BaseException) -> str:
    """Type and message of an exception, on one line of at most 2,000 characters."""
    return " ".join("".join(traceback.format_exception_only(type(error), error)).split())[:2000]


class Progress:
    """Tells how far the import of TensorFlow is: Python asks it before it looks for a module, and it finds none."""

    def __init__(self) -> None:
        self.started = self.told = time.monotonic()

    def find_spec(self, *_: object) -> None:
        """Called by Python's import system with the name of a module."""
        now = time.monotonic()
        if now - self.told >= TOLD_EVERY_S:
            self.told = now
            say(phase="importing TensorFlow: %d modules after %d s" % (len(sys.modules), now - self.started))


def own_modules() -> dict[str, Any]:
    """The modules that this program imported, and that a user's program has not."""
    return {name: module for name, module in sys.modules.items() if name not in STARTED_WITH and is_python(module)}


def forget_hidden(own: dict[str, Any]) -> None:
    """Forget what this program imported, if a file of the working folder hides any of it.

    TensorFlow then imports that file, as it does in a user's program.
    """
    if not sys.path[0] and any(map(is_local, own)):
        for name in own:
            del sys.modules[name]


def is_python(module: Any) -> bool:
    """Whether a module comes from a file of Python's: others are not loaded twice."""
    return str(getattr(module, "__file__", None) or "").endswith(".py")


def is_local(name: str) -> bool:
    """Whether the working folder has a module of that name."""
    return os.path.isfile(name + ".py") or os.path.isfile(os.path.join(name, "__init__.py"))


def format_traceback(own: dict[str, Any]) -> list[str]:
    """The traceback of the exception that is handled: what formats it imports modules, which no local file may hide now."""
    for name in own_modules():
        del sys.modules[name]
    sys.modules.update(own)
    path, sys.path = sys.path, [folder for folder in sys.path if folder]
    try:
        return traceback.format_exc().splitlines()
    finally:
        sys.path = path


def culprits(error: BaseException) -> list[dict[str, object]]:
    """The files of the modules that an exception names, and then those of its traceback, the innermost first."""
    rows: list[dict[str, object]] = []
    chain = [error]
    before = error.__cause__ or error.__context__
    while before is not None and before not in chain:
        chain.append(before)
        before = before.__cause__ or before.__context__
    for each in chain:
        rows += [{"file": file, "named": True} for file in files_named_by(each)]
    for each in reversed(chain):  # the first of them was raised first
        frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(each.__traceback__)]
        rows += [{"file": file, "named": False} for file in reversed(frames)]
    known = [row for row in rows if row["file"] != __file__ and os.path.isfile(str(row["file"]))]
    return [row for place, row in enumerate(known) if row["file"] not in [each["file"] for each in known[:place]]]


def files_named_by(error: BaseException) -> list[str]:
    """The files of the modules that an exception is about: the module of an ImportError, or the package that lacks it."""
    if isinstance(error, SyntaxError):
        return [error.filename or ""]
    # From Python 3.10 on an AttributeError has `obj`; older ones only say "module 'six' has no attribute 'moves'".
    found = re.search(r"module '([\w.]+)'", last_line(error)) if isinstance(error, AttributeError) else None
    name = (getattr(error, "name", "") or "") if isinstance(error, ImportError) else found.group(1) if found else ""
    files = [getattr(error, "path", None)] if isinstance(error, ImportError) else []
    while name and isinstance(name, str):
        files.append(getattr(sys.modules.get(name), "__file__", None))
        name = name.rpartition(".")[0]
    return [file for file in files if file and isinstance(file, str)]


def import_path() -> dict[str, object]:
    """Where Python looks for modules now, and which of these folders are its own or the user site."""
    try:
        here = os.getcwd()
    except OSError:  # it was removed
        here = ""
    return {
        "search_path": [os.path.join(here, folder) if folder else here for folder in sys.path],
        "standard": os.path.dirname(os.__file__),
        "sites": getattr(site, "getsitepackages", list)(),  # old versions of virtualenv have a module site without it
        "user_site": site.getusersitepackages() if site.ENABLE_USER_SITE else "",
        "here": here,
        "working_folder": here if "" in sys.path else "",
    }


def matmul(tf: Any) -> Any:
    """The product of two matrices of small integers."""
    numbers = tf.range(SIDE * SIDE, dtype=tf.float32)
    left = tf.reshape(tf.math.floormod(numbers, 5.0) - 2.0, (SIDE, SIDE))
    right = tf.reshape(tf.math.floormod(numbers, 7.0) - 3.0, (SIDE, SIDE))
    return tf.linalg.matmul(left, right)


def convolution(tf: Any) -> Any:
    """A convolution of small integers, like the first layer of an image network."""
    image = tf.reshape(tf.math.floormod(tf.range(2 * 32 * 32 * 8, dtype=tf.float32), 5.0) - 2.0, (2, 32, 32, 8))
    kernel = tf.reshape(tf.math.floormod(tf.range(3 * 3 * 8 * 16, dtype=tf.float32), 3.0) - 1.0, (3, 3, 8, 16))
    return tf.nn.conv2d(image, kernel, strides=1, padding="SAME")


OPERATIONS = {"matmul": matmul, "convolution": convolution}


def compute(tf: Any, operation: str, device: str) -> dict[str, object]:
    """Compute on one device, compare with the CPU, and report the device of the result."""
    row: dict[str, object] = {"operation": operation, "device": device}
    started = time.monotonic()
    try:
        with tf.device("/CPU:0"):
            expected = OPERATIONS[operation](tf)
        with tf.device(device):
            found = OPERATIONS[operation](tf)
        row["placed_on"] = found.device
        with tf.device("/CPU:0"):
            found = tf.identity(found)
            scale = tf.reduce_max(tf.abs(expected))
            error = float(tf.reduce_max(tf.abs(found - expected)) / scale)
        if error != error:
            raise ArithmeticError("the result contains NaN")
        row["largest_error"] = error
    except Exception as error:  # noqa: BLE001 - whatever TensorFlow raises is the answer
        row["error"] = last_line(error)
    row["seconds"] = time.monotonic() - started
    return row


def describe(tf: Any, device: Any) -> dict[str, object]:
    """Name and details of one physical device."""
    details_of = getattr(tf.config.experimental, "get_device_details", None)  # since TensorFlow 2.4
    details = details_of(device) if details_of else {}
    capability = details.get("compute_capability")
    return {
        "name": device.name,
        "description": str(details.get("device_name", "")),
        "compute_capability": "%d.%d" % capability if capability else "",
        "memory_growth": tf.config.experimental.get_memory_growth(device),
    }


def use(tf: Any, kind: str, computes: bool) -> None:
    """List the devices of that kind, and compute on each."""
    say(version=str(tf.__version__), phase="listing the GPUs")
    devices = tf.config.list_physical_devices(kind)
    say(gpus_listed=True, gpus=[{"name": device.name} for device in devices] if kind == "GPU" else [])
    if not devices:
        return
    say(phase="describing the GPUs")
    if kind == "GPU":
        say(gpus=[describe(tf, device) for device in devices])
        for device in devices:
            tf.config.experimental.set_memory_growth(device, True)
        say(growth_set=all(tf.config.experimental.get_memory_growth(device) for device in devices))
    if not computes:
        return
    tf.config.set_soft_device_placement(False)
    done = []
    for index in range(len(devices)):
        for operation in OPERATIONS:
            say(phase="%s on %s:%d" % (operation, kind, index))
            done.append(compute(tf, operation, "/%s:%d" % (kind, index)))
            say(computations=done)


def main() -> None:
    die_with_parent()
    # A user's program has its own folder first on the search path; this one acts as if it were in the user's working folder.
    sys.path[0] = "" if not getattr(sys.flags, "safe_path", False) else sys.path[0]
    before = environment_at_start()
    say(phase="importing TensorFlow")
    started = time.monotonic()
    gc.disable()  # Almost all that an import makes, it keeps: looking for garbage in it takes a seventh of the time.
    own, progress = own_modules(), Progress()
    forget_hidden(own)
    sys.meta_path.insert(0, progress)
    try:
        import tensorflow as tf

        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not progress]
        gc.enable()
        say(import_seconds=time.monotonic() - started)
    except BaseException as error:  # noqa: BLE001 - including SystemExit and the like: the import is under examination
        found = culprits(error)  # first: it looks where the modules that were imported came from
        lines = format_traceback(own)
        say(import_error=last_line(error), import_traceback=[line[:300] for line in lines[-40:]])
        say(culprits=found, import_path=import_path())
        return
    try:
        use(tf, sys.argv[1], "list" not in sys.argv[2:])
    except Exception as error:  # noqa: BLE001 - whatever TensorFlow raises is the answer
        say(use_error=last_line(error), culprits=culprits(error), import_path=import_path())
    watched = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_ALLOCATOR", "XLA_FLAGS")
    after = {name: os.environ.get(name, "") for name in watched if os.environ.get(name) != before.get(name)}
    say(changed_variables=after)


if __name__ == "__main__":
    main()
    ANSWER.flush()
    os._exit(0)  # TensorFlow's teardown takes a tenth of a second and gives no information
