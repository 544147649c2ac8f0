"""Names of users and hosts that the machine, its environment and its facts tell: none of them may leave.

A name is replaced wherever it stands as a word, also where it is an English one ("dell", "user", "anna"). Only words
that a diagnosis may hang on stay ("lib", "nvidia", "memory": those of folders, libraries, variables and of the
messages that the doctor looks for): every machine's facts are full of them, so they tell of no one. In the places that
are made for names (/home/NAME, NAME@HOST, the owner of a process) those are replaced, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts import Facts

_USER_VARIABLES = ("USER", "LOGNAME", "USERNAME", "SUDO_USER", "LNAME", "JUPYTERHUB_USER", "NB_USER", "SLURM_JOB_USER")
_HOST_VARIABLES = ("HOSTNAME", "HOST", "COMPUTERNAME", "NODENAME", "SLURMD_NODENAME", "NODE_NAME")
_HOME_VARIABLES = ("HOME", "USERPROFILE")
_HOME = re.compile(r"(?:/home/|/Users/|[A-Za-z]:\\+Users\\+|/user/)([^/\\\s\"':;,]+)")
_SIGNER = re.compile(r"^(\S+) Secure Boot Module Signature key$")
_SYSTEM = frozenset({"root", "nobody", "nogroup", "localhost", "shared", "public", "default", "local", "localdomain"})
FIRST_UID = 1000  # of people, on nearly every Linux
_SHORTEST = 2  # letters: a user "x" cannot be told from the letter
_MOST_ACCOUNTS = 10_000
_MOST_HOSTS = 50  # a longer list was made by a program, against advertisements for instance


@dataclass(frozen=True)
class Identity:
    """Names of users and hosts."""

    users: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()

    def joined_with(self, other: Identity) -> Identity:
        """The names of both."""
        return Identity(self.users | other.users, self.hosts | other.hosts)


def told_by_machine(host: Host) -> Identity:
    """The names that this machine's environment and account files tell."""
    users = {host.environment.get(name, "") for name in _USER_VARIABLES}
    users |= {_last_of(host.environment.get(name, "")) for name in _HOME_VARIABLES}
    hosts = {host.environment.get(name, "") for name in _HOST_VARIABLES}
    hosts |= {host.files.text_if_any(path) for path in ("/etc/hostname", "/proc/sys/kernel/hostname")}
    for line in host.files.text_if_any("/etc/passwd").splitlines()[:_MOST_ACCOUNTS]:
        fields = line.split(":")
        if len(fields) > 5 and fields[2].isdecimal() and int(fields[2]) >= FIRST_UID:
            users |= {fields[0], _last_of(fields[5])}
    lines = host.files.text_if_any("/etc/hosts").splitlines()
    listed = {name for line in lines for name in line.partition("#")[0].split()[1:]}
    hosts |= listed if len(listed) <= _MOST_HOSTS else set()
    return Identity(_names(users), _host_names(hosts))


def told_by_facts(facts: Facts) -> Identity:
    """The names that facts tell: owners of processes, home folders, who signed the module."""
    users: set[str] = set()
    hosts: set[str] = set()
    for text in strings_in(msgspec.to_builtins(facts)):
        users.update(_HOME.findall(text))
        hosts.update(_SIGNER.findall(text))
    for gpu in facts.nvml.gpus if facts.nvml else ():
        users |= {process.user for process in gpu.processes}
    return Identity(_names(users), _host_names(hosts))


def strings_in(value: Any) -> Iterator[str]:
    """Every string of a document, keys as well."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield str(key)
            yield from strings_in(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from strings_in(each)


def _last_of(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def _names(found: Iterable[str]) -> frozenset[str]:
    """Names in small letters, without those that every machine has, and placeholders."""
    small = {name.strip().lower() for name in found}
    return frozenset(name for name in small if len(name) >= _SHORTEST and name not in _SYSTEM and name[0] not in "<.-")


def _host_names(found: Iterable[str]) -> frozenset[str]:
    """Names of hosts, whole and without their domain."""
    whole = {name.strip() for name in found}
    names = _names({*whole, *(name.partition(".")[0] for name in whole)})
    return frozenset(name for name in names if not name.startswith(("ip6-", "127.", "::")) and not name.isdecimal())
