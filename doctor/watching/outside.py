"""A running process, looked at from outside: nothing in it is changed, stopped or guessed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tfgpu_doctor.cli.output import note, refuse
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.json_text import read_json
from tfgpu_doctor.host.scratch import scratch_folder
from tfgpu_doctor.host.talk import visit
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.tracing import STARTUP, of_user
from tfgpu_doctor.watching.agent import AttachedAgent, Look, Stack
from tfgpu_doctor.watching.beside import Watched
from tfgpu_doctor.watching.hang_diagnosis import in_words
from tfgpu_doctor.watching.history import WatchOptions
from tfgpu_doctor.watching.program_environment import variables_of
from tfgpu_doctor.watching.reporter import Reporter
from tfgpu_doctor.watching.reporting import make_watch_report
from tfgpu_doctor.watching.thread_states import main_progress
from tfgpu_doctor.watching.watcher import Watcher

Thread = dict[str, object]  # of py-spy's JSON

_TICK_S = 0.2
_LOOK_EVERY_S = 5.0  # py-spy needs about 0.2 s of CPU for a look
_SPY_S = 30.0
_FAILURES = (
    3  # without any look, before it is said that there will be none: it may just have read while the program changed
)
_MISSING = re.compile(r"Permission|ptrace|privileg|Operation not permitted", re.IGNORECASE)


class PySpyAgent:
    """Looks at the Python of another process with py-spy, which reads its memory; it cannot be asked to record."""

    def __init__(self, host: Host, pid: int) -> None:
        self._host, self.pid = host, pid
        self.look: Look | None = None
        self.asked_s: float | None = None
        self.recording, self.problem, self.full = "", "from outside nothing can be recorded", False
        self.seconds = self.changed_s = 0.0
        self.over: str | None = None
        self.lost = False
        self.unable = ""  # why there are no looks
        self.answer_s = _SPY_S + 5  # py-spy itself may wait for a CPU, and then it has no answer
        self.places: Counter[str] = Counter()  # the user's function in the main thread, by how often it was found
        self._next_s = 0.0
        self._failures = 0
        self._others = False

    def ask(self, *, others: bool) -> None:
        """Ask for a look, unless one is awaited, or came just now."""
        now = time.monotonic()
        if self.unable or self.asked_s is not None or (now < self._next_s and not others):
            return
        self.asked_s, self._next_s, self._others = now, now + _LOOK_EVERY_S, others
        threading.Thread(target=self._spy, daemon=True).start()

    def start(self, folder: str, most_bytes: int) -> None:
        """From outside nothing can be recorded."""

    def stop(self) -> None:
        """From outside nothing can be recorded."""

    def _spy(self) -> None:
        argv = ["py-spy", "dump", "--nonblocking", "--full-filenames", "--json", "--pid", str(self.pid)]
        done = self._host.run(argv, deadline_s=_SPY_S)
        if done.exit_code == 0:
            # It read while the program changed; or it answers in another form than this one knows.
            with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError):
                self._take(read_json(done.stdout))
        elif done.not_started:
            self.unable = "Python's frames need py-spy: pip install py-spy"
        elif _MISSING.search(done.stderr):
            self.unable = "py-spy may not read this process: it needs the same user, and CAP_SYS_PTRACE in a container"
        if self.look is None and not self.unable and not done.timed_out:
            self._failures += 1
            if self._failures == _FAILURES:
                said = done.stderr.strip().rpartition("\n")[2] or "its answer has an unknown form"
                self.unable = f"py-spy cannot read this process ({said[:300]}); a newer one may: pip install -U py-spy"
        self.asked_s = None

    def _take(self, threads: Sequence[Thread]) -> None:
        first = main_thread(threads, self.pid)
        main = _stack(first) if first else ()
        key = " ".join(f"{file}:{line}" for file, line, _ in main)
        others = tuple(_stack(each) for each in threads if each is not first) if self._others else None
        self.look = Look(time.monotonic(), main, key, others)
        if place := of_user(main):
            self.places[in_words((place,))] += 1
        elif main:
            self.places[f"{in_words(main[:1])} of TensorFlow or Python"] += 1


def main_thread(threads: Sequence[Thread], pid: int) -> Thread | None:
    """The main thread. Its name is known only where the program imports threading; the kernel's id not always."""
    named = (
        next((each for each in threads if each.get("os_thread_id") == pid), None),
        next((each for each in threads if each.get("thread_name") == "MainThread"), None),
        threads[0] if len(threads) == 1 else None,
    )
    return next((each for each in named if each is not None), None)


def _stack(thread: Thread) -> Stack:
    frames = thread.get("frames")
    rows = frames if isinstance(frames, list) else []
    return tuple((str(each["filename"]), int(each["line"]), str(each["name"])) for each in rows)


def watch_pid(pid: int, options: WatchOptions, reporter: Reporter, *, seconds: float | None) -> Watched:
    """Look at a process until it ends, the time is over, or Ctrl-C. Exits with one line if it may not be looked at."""
    host = Host()
    owner = _owner(host, pid)
    as_owner = _as_owner(host, pid, owner)
    if as_owner:
        note(as_owner)
    spy, talk = PySpyAgent(host, pid), visit(pid, _runtime_folders(host, pid)) if owner == os.getuid() else None
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    with scratch_folder() as folder:
        agents = AttachedAgent(talk).hear if talk else lambda: [spy]
        watcher = Watcher(
            host, pid, replace(options, from_outside=talk is None), folder=folder, agents=agents, told=reporter
        )
        end = None if seconds is None else time.monotonic() + seconds
        try:
            while main_progress(host, pid) is not None and (end is None or time.monotonic() < end):
                watcher.tick()
                time.sleep(_TICK_S)
        except KeyboardInterrupt:
            pass
        finally:
            signal.signal(signal.SIGTERM, previous)
            watcher.end()
            reporter.close()
            host.stop()
    if talk is None:
        _note_places(watcher, spy, as_owner)
    else:
        talk.close()
    report = make_watch_report(watcher, exit_code=None)
    reporter.end(report)
    return Watched(report, 0)


def _runtime_folders(host: Host, pid: int) -> list[str]:
    """Where the process may listen: cron and systemd start programs without the variable that a login has."""
    variables = variables_of(host.files, pid)
    if variables:
        return [variables.get("XDG_RUNTIME_DIR", "")]
    return [host.environment.get("XDG_RUNTIME_DIR", ""), "/tmp"]


def _owner(host: Host, pid: int) -> int:
    """The user of a process; refuse one that is not there, or another user's unless this is root."""
    try:
        owner = host.files.status(f"/proc/{pid}").uid
    except OSError:
        refuse(f"there is no process {pid}")
    if owner != os.getuid() != 0:
        refuse(f"process {pid} belongs to user {owner}, not to {os.getuid()}: run the doctor as the same user")
    return owner


def _as_owner(host: Host, pid: int, owner: int) -> str:
    """What root does to ask the recorder in another user's program; empty if there seems to be none.

    Root does not ask it: that user may write where the recorder listens, and may not write where the doctor records.
    """
    if owner == os.getuid():
        return ""
    places = (f"{folder or '/tmp'}/tfgpu-doctor-{owner}/{pid}" for folder in _runtime_folders(host, pid))
    if not any(map(host.files.exists, places)):
        return ""
    return (
        f"process {pid} listens for a doctor of its own user alone, so its steps are not recorded; as that user: "
        f"sudo -u '#{owner}' tfgpu-doctor watch --pid {pid}"
    )


def _note_places(watcher: Watcher, agent: PySpyAgent, as_owner: str) -> None:
    """What Python's frames showed, and how the program, or its next start, can be looked into."""
    notes = watcher.history.notes
    if agent.unable:
        notes.append(agent.unable)
    looks = sum(agent.places.values())
    found = ", ".join(f"{name} {count / looks:.0%}" for name, count in agent.places.most_common(3))
    if found:
        notes.append(f"its main thread was in {found} ({amount(looks, 'look')})")
    notes.append(
        as_owner
        or "what its steps wait for cannot be seen from outside; the next start: tfgpu-doctor watch -- COMMAND, or "
        f"PYTHONPATH={STARTUP} COMMAND, and --pid again"
    )
