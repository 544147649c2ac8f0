"""Emitted scripts run for real: real bash, and placeholders for the commands of a cluster on the PATH."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable

from doctor_command import clean_environment

# The doctor on a node, as its name says: healthy, with findings of the node or of its user, silent, hanging, ...; what is
# drained for it, the real doctor says.
DOCTOR = f"""#!/bin/bash
[[ $2 == drains ]] && exec {shlex.quote(sys.executable)} -m tfgpu_doctor "$@"
"""
DOCTOR += """printf '%s\\n' "$@" >"$(dirname "$0")/argv-$4"
case $4 in
  hangs*) sleep 100 ;;
  killed*) kill -KILL $$ ;;
  crashes*) echo 'Traceback (most recent call last)' >&2; exit 1 ;;
  absent*) exec /nonexistent/python ;;
  stuck*) exit 3 ;;
  slow*) until [[ -e $6/go ]]; do sleep 0.05; done ;;
esac
causes=()
[[ $4 == bad* ]] && causes+=(hardware_ecc_error HLT002 "GPU 1 (an \\$(id) 'A100') has had 3 errors; rm -rf")
[[ $4 == bad2 ]] && causes+=(gpu_lost XID001 'GPU 0 is lost')
[[ $4 == user* ]] && causes+=(wrong_python_environment PKG002 'TensorFlow is not installed in this Python')
found=$(printf ',{"label":"%s","id":"%s","title":"%s","severity":"error"}' "${causes[@]}")
((${#causes[@]})) || found=,
printf '{"schema":1,"kind":"tfgpu-doctor node","node":"%s","outcome":"reported","causes":[%s]}\\n' "$4" "${found:1}" >"$6/$4.json"
((${#causes[@]})) && { echo "$4: ${causes[*]}"; exit 1; }
echo "$4: healthy"
"""
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
pids=() worst=0
for node in $STAND_IN_NODES; do
  [[ $node == lost* ]] && continue
  SLURMD_NODENAME=$node "$@" & pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || { code=$?; ((code > worst)) && worst=$code; }; done
exit "$worst"
"""
SCONTROL = """#!/bin/bash
printf '%s\\n' "$*" >>"$(dirname "$0")/scontrol.log"
case "$*" in
  'show hostnames '*) for node in $STAND_IN_NODES; do echo "$node"; done ;;
  *'show node'*) echo "NodeName=x Arch=x86_64 State=${STAND_IN_STATE:-MIXED} Reason=none" ;;
  update*) exit "${STAND_IN_UPDATE:-0}" ;;
esac
"""
SSH = """#!/bin/bash
while [[ $1 == -* ]]; do shift; done
host=$1
shift
[[ $host == lost* ]] && { echo "ssh: no route to $host" >&2; exit 255; }
STAND_IN_HOST=$host exec bash -c "$*"
"""
HOSTNAME = """#!/bin/bash
echo "${STAND_IN_HOST:-$(uname -n)}"
"""


def commands(folder: pathlib.Path, **texts: str) -> pathlib.Path:
    """A folder of executables, each with its text."""
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def run_script(
    text: str, *arguments: str, commands: pathlib.Path, nodes: Iterable[str] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a script with those commands before all others."""
    script = commands / "emitted.sh"
    script.write_text(text)
    path = f"{commands}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    try:
        return subprocess.run(
            ["bash", str(script), *arguments], capture_output=True, text=True, timeout=240, check=False,
            env=clean_environment() | {"PATH": path, "STAND_IN_NODES": " ".join(nodes), **variables},
        )  # fmt: skip
    finally:
        end_hosts(path)


def end_hosts(path: str) -> None:
    """End what ran on hosts that mpirun lost: a connection that is gone would, and a placeholder for one does not."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            variables = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended, or is another user's
        if f"PATH={path}".encode() in variables:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGKILL)
