"""The command line: runs the command, and ensures that no error ends in a traceback."""

from __future__ import annotations

import errno
import gc
import os
import sys
import threading
from types import TracebackType
from typing import NoReturn

import click

from tfgpu_doctor._project import __version__, report_it
from tfgpu_doctor.cli.interrupts import finish, hold, listen
from tfgpu_doctor.cli.lazy_group import LazyGroup
from tfgpu_doctor.cli.output import WRONG_USAGE, forget_said, note, say_interrupted
from tfgpu_doctor.host.adoption import ADOPTION
from tfgpu_doctor.host.files import working_folder_is_gone
from tfgpu_doctor.host.scratch import choose_parent, end_run

_COMMANDS = {
    "check": ("cli.check_command", "name the one reason why TensorFlow does not use the GPU (the default)"),
    "rehearse": ("rehearse.command", "test whether TensorFlow would find a GPU here, if there were one"),
    "libraries": (
        "cli.libraries_command",
        "list the libraries that TensorFlow opens: location and provider, or why not found",
    ),
    "env": ("fix.env_command", "print the variables that the target needs, for a shell or a Dockerfile"),
    "fix": ("fix.command", "plan, apply or undo a repair"),
    "log": ("log.command", "find the cause in a log"),
    "matrix": ("advise.matrix_command", "show which TensorFlow releases fit which Python, driver and GPU"),
    "advise": ("advise.command", "find the newest release that works here, and the commands that install it"),
    "bench": ("bench.command", "run the perf suites: GPU and CPU, with and without each technique"),
    "trace": ("tracing.command", "say where the steps of a profiled training spend their time, and what to change"),
    "watch": ("watching.command", "run a training and say why its GPU idles, and that it hangs"),
    "accept": ("accept.command", "pass or fail a machine before it goes into service, with a certificate"),
    "ticket": (
        "ticket.command",
        "write a page and a bundle for a support ticket, with names, addresses and keys replaced",
    ),
    "fleet": ("fleet.command", "run the doctor on every node of a cluster, and compare the nodes"),
    "explain": ("cli.explain_command", "explain a check, a cause or a code"),
}
_ANOTHER_S_OUTPUT = "watch"  # its standard output and exit code are those of the program that it runs
_LISTENS_ITSELF = ("check", "rehearse")  # once it can answer a signal with its document
_HELP = getattr(click.exceptions, "NoArgsIsHelpError", ())  # its message is the help; click 8.1 has no such error
_INTERNAL_ERROR = 3
_INTERRUPTED = 130


@click.group(
    cls=LazyGroup, commands=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
@click.version_option(__version__, prog_name="tfgpu-doctor")
def cli() -> None:
    """Find out why TensorFlow does not use this machine's NVIDIA GPU, or uses it badly.

    Without a command, it runs `check`. See `tfgpu-doctor check --help` for the options.
    """


def main() -> NoReturn:
    """Run the command line, and exit with its code."""
    gc.set_threshold(
        50_000, 20, 20
    )  # a short run keeps nearly all its objects: searching for garbage costs a twentieth
    sys.excepthook = _report_internal_error
    threading.excepthook = lambda _: None  # a failure on a thread appears as an unknown fact
    hold()
    choose_parent()
    _leave(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command that the arguments name, or `check` if they name none, and return its exit code."""
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help", "--version")):
        arguments = ["check", *arguments]
    forget_said()
    try:
        if arguments[0] not in _LISTENS_ITSELF:
            listen()
        code: object = cli.main(arguments, prog_name="tfgpu-doctor", standalone_mode=False)
    except click.ClickException as error:
        from tfgpu_doctor.model.plain_text import one_line

        if not isinstance(error, _HELP):
            error.message = one_line(error.message)  # type: ignore[misc]  # it quotes what the user or CI passed
        error.show()
        code = error.exit_code
    except OSError as error:
        if not (why := _outer_reason(error)):
            raise
        note(f"error: {why}")
        code = WRONG_USAGE
    except SystemExit as exit_:
        code = exit_.code
    except (click.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    if code == _INTERRUPTED and arguments[0] != _ANOTHER_S_OUTPUT:
        say_interrupted(arguments)
    return code if isinstance(code, int) else 0


def _outer_reason(error: OSError) -> str:
    """Say what outside of the doctor made a command fail anywhere; empty if it is the doctor's own fault."""
    if error.filename:
        return ""
    if error.errno == errno.ENOSPC:
        return f"standard output cannot be written: {error.strerror}"
    if isinstance(error, FileNotFoundError) and working_folder_is_gone():
        return "the working folder is gone: change into one that exists"
    return ""


def _leave(code: int) -> NoReturn:
    """Exit at once: a blocked thread must not delay the exit."""
    finish()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            pass  # the reader is gone; the verdict does not change
    ADOPTION.end_unknown()
    end_run()
    os._exit(code)


def _report_internal_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> NoReturn:
    """Print one line instead of a traceback, unless $TFGPU_DOCTOR_TRACEBACK requests it."""
    if issubclass(kind, KeyboardInterrupt):  # it came between the end of a command and its exit
        _leave(_INTERRUPTED)
    if os.environ.get("TFGPU_DOCTOR_TRACEBACK"):
        sys.__excepthook__(kind, error, trace)
    elif sys.stderr is not None:
        from tfgpu_doctor.model.plain_text import one_line

        sys.stderr.write(
            f"tfgpu-doctor: the doctor itself failed ({kind.__name__}: {one_line(str(error))}); please "
            f"{report_it('the traceback that TFGPU_DOCTOR_TRACEBACK=1 prints')}\n"
        )
    _leave(_INTERNAL_ERROR)
