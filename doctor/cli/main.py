"""The command line: finds the command, and sees that nothing ends in a traceback."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import NoReturn

import click

from tfgpu_doctor._project import __version__, report_it
from tfgpu_doctor.cli.lazy_group import LazyGroup

_COMMANDS = {
    "check": ("cli.check_command", "name the one reason why TensorFlow does not use the GPU (the default)"),
    "rehearse": ("rehearse.command", "would TensorFlow see a GPU here, if there were one?"),
    "libraries": (
        "cli.libraries_command",
        "each library that TensorFlow opens: found where, brought by whom, or why not",
    ),
    "env": ("fix.env_command", "the variables that the target needs, for a shell or a Dockerfile"),
    "fix": ("fix.command", "the repair: planned, applied, undone"),
    "log": ("log.command", "the cause that a log tells of"),
    "matrix": ("advise.matrix_command", "which TensorFlow releases fit which Python, driver and GPU"),
    "advise": ("advise.command", "the newest release that works here, and the commands that install it"),
    "bench": ("bench.command", "the perf suites: the GPU against the CPU, each technique against its absence"),
    "accept": ("accept.command", "pass or fail a machine before it goes to work, with a certificate"),
    "ticket": ("ticket.command", "a page and a bundle for a support ticket, with names, addresses and keys replaced"),
    "fleet": ("fleet.command", "the same on every node of a cluster, and the comparison"),
    "explain": ("cli.explain_command", "why a check exists, its sources, its fix"),
}
_INTERNAL_ERROR = 3
_INTERRUPTED = 130


@click.group(
    cls=LazyGroup, commands=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
@click.version_option(__version__, prog_name="tfgpu-doctor")
def cli() -> None:
    """Why does TensorFlow not use this machine's NVIDIA GPU, or use it badly?

    Without a command it runs `check`. See `tfgpu-doctor check --help` for the options.
    """


def main() -> NoReturn:
    """Run the command line, and exit with its code."""
    gc.set_threshold(
        50_000, 20, 20
    )  # nearly all that a short run makes it keeps: looking for garbage costs a twentieth
    sys.excepthook = _report_internal_error
    threading.excepthook = lambda _: None  # what fails on a thread shows as a fact that is not known
    signal.signal(signal.SIGTERM, _interrupt)
    _leave(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command that the arguments name, `check` where they name none, and give its exit code."""
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help", "--version")):
        arguments = ["check", *arguments]
    try:
        code: object = cli.main(arguments, prog_name="tfgpu-doctor", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except SystemExit as exit_:
        code = exit_.code
    except (click.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    return code if isinstance(code, int) else 0


def _leave(code: int) -> NoReturn:
    """Exit at once: what is still blocked in some thread must not hold the process up."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            pass  # the reader is gone; the verdict stands
    os._exit(code)


def _interrupt(signum: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _report_internal_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> NoReturn:
    """One line in place of a traceback, unless $TFGPU_DOCTOR_TRACEBACK asks for it."""
    if os.environ.get("TFGPU_DOCTOR_TRACEBACK"):
        sys.__excepthook__(kind, error, trace)
    elif sys.stderr is not None:
        sys.stderr.write(
            f"tfgpu-doctor: the doctor itself failed ({kind.__name__}: {error}); please "
            f"{report_it('what TFGPU_DOCTOR_TRACEBACK=1 adds')}\n"
        )
    _leave(_INTERNAL_ERROR)
