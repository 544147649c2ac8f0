"""TF_CONFIG: parse it, derive it from the variables of Ray, Slurm or Kubernetes, and find its faults."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfgpu_doctor.fleet.launched import Launched, launched_by
from tfgpu_doctor.host.json_text import read_json

PORT = 12355
_ROLES = ("chief", "worker", "ps", "evaluator")
_LAST_PORT = 65535


class TfConfigError(ValueError):
    """A TF_CONFIG that cannot be read or derived; the message says what to change."""


class TfConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The processes of a cluster by role, each with host:port, and the role and index of this process."""

    cluster: dict[str, tuple[str, ...]]
    role: str
    index: int

    @property
    def text(self) -> str:
        """The value of the variable."""
        cluster = {role: list(addresses) for role, addresses in self.cluster.items()}
        return json.dumps({"cluster": cluster, "task": {"type": self.role, "index": self.index}})

    @property
    def name(self) -> str:
        """The name of this process: worker 1."""
        return f"{self.role} {self.index}"

    @property
    def own_address(self) -> str:
        """The address of this process; empty if the cluster does not list it."""
        addresses = self.cluster.get(self.role, ())
        return addresses[self.index] if 0 <= self.index < len(addresses) else ""

    @property
    def others(self) -> tuple[tuple[str, str], ...]:
        """Name and address of each other process."""
        return tuple((name, address) for name, address in self.members if name != self.name)

    @property
    def members(self) -> tuple[tuple[str, str], ...]:
        """Name and address of each process."""
        return tuple(
            (f"{role} {place}", address) for role, found in self.cluster.items() for place, address in enumerate(found)
        )


class Fault(msgspec.Struct, frozen=True):
    """A fault that keeps a cluster from starting, and the change to make."""

    what: str
    change: str

    def __str__(self) -> str:
        return f"{self.what}: {self.change}"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The observations from this process before TensorFlow starts its server."""

    own_here: bool | None = None  # whether its own address belongs to this machine; None if unknown
    own_port_free: bool | None = None
    goes_out_by: str = ""  # the address by which this machine reaches the others
    unreachable: dict[str, str] = {}  # the reason by the name of each process that cannot be reached


def read_tf_config(text: str) -> TfConfig:
    """Parse the variable. Raises TfConfigError."""
    try:
        document = read_json(text)
    except ValueError as error:
        raise TfConfigError(f"TF_CONFIG is not JSON ({error}): write it with json.dumps") from error
    cluster = document.get("cluster") if isinstance(document, dict) else None
    task = document.get("task") if isinstance(document, dict) else None
    if not isinstance(cluster, dict) or not cluster:
        raise TfConfigError(
            'TF_CONFIG has no cluster: it requires {"cluster": {"worker": ["host:port", ...]}, "task": ...}'
        )
    if not isinstance(task, dict) or "type" not in task or "index" not in task:
        raise TfConfigError('TF_CONFIG does not say which process this is: add "task": {"type": "worker", "index": 0}')
    addresses = {str(role): _addresses(str(role), found) for role, found in cluster.items()}
    index = task["index"]
    if isinstance(index, bool) or not str(index).isdecimal():
        raise TfConfigError(f"task index {index!r} is not a number: count from 0")
    return TfConfig(cluster=addresses, role=str(task["type"]), index=int(index))


def _addresses(role: str, found: Any) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise TfConfigError(f"the cluster's {role} is not a list of host:port: {found!r}")
    return tuple(found)


def derive(environment: Mapping[str, str], *, port: int = PORT) -> TfConfig | None:
    """Return TF_CONFIG if set, else derive it from the launcher's variables; None without either. Raises TfConfigError."""
    if environment.get("TF_CONFIG"):
        return read_tf_config(environment["TF_CONFIG"])
    try:
        launched = launched_by(environment)
    except ValueError as error:
        raise TfConfigError(str(error)) from error
    return _made(launched, port) if launched else None


def _made(launched: Launched, port: int) -> TfConfig:
    """Return a cluster of workers only: the first is the chief. Workers on the same host get consecutive ports."""
    seen: dict[str, int] = {}
    addresses = []
    for host in launched.hosts:
        place = seen[host] = seen.get(host, -1) + 1
        addresses.append(host if _has_port(host) else f"{host}:{port + place}")
    return TfConfig(cluster={"worker": tuple(addresses)}, role="worker", index=launched.index)


def _has_port(host: str) -> bool:
    return host.rpartition(":")[0] != "" and host.rpartition(":")[2].isdecimal()


def faults(config: TfConfig) -> Iterator[Fault]:
    """Yield the faults of the configuration itself."""
    if config.role not in config.cluster:
        here = ", ".join(config.cluster)
        yield Fault(f"this process is a {config.role}, but the cluster has none", f"list it, or make it one of {here}")
    elif not config.own_address:
        count = len(config.cluster[config.role])
        yield Fault(
            f"this process is {config.name}, but the cluster lists {count}, counted from 0",
            f"give it an index from 0 to {count - 1}, or list its address",
        )
    for role in config.cluster:
        if role not in _ROLES:
            yield Fault(f"the cluster has the role {role!r}", f"TensorFlow knows {', '.join(_ROLES)}")
    if len(config.cluster.get("chief", ())) > 1:
        yield Fault("the cluster has more than one chief", "let the others be workers")
    yield from _address_faults(config)


def _address_faults(config: TfConfig) -> Iterator[Fault]:
    owners: dict[str, str] = {}
    loops = []
    for name, address in config.members:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= _LAST_PORT:
            yield Fault(
                f"the address {address!r} of {name} is not host:port", "TensorFlow requires both, without http://"
            )
            continue
        if address in owners:
            yield Fault(
                f"{owners[address]} and {name} have the same address, {address}", "give each process its own port"
            )
        owners.setdefault(address, name)
        if host.strip("[]") in ("0.0.0.0", "::"):  # noqa: S104 - compared with, not bound
            yield Fault(
                f"the address of {name} is {host}, which others cannot reach", "use the host name or its address"
            )
        loops += [name] if _is_loopback(host) else []
    if loops and len(loops) < len(config.members):
        yield Fault(
            f"the address of {', '.join(loops)} is a loopback address, but other processes are on other machines",
            "use the name or the address by which the others reach that machine",
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def faults_here(config: TfConfig, seen: Seen) -> Iterator[Fault]:
    """Yield the faults of the configuration on this machine."""
    if seen.own_here is False:
        by = f"; it reaches the others by {seen.goes_out_by}" if seen.goes_out_by else ""
        yield Fault(
            f"the address of {config.name} is {config.own_address}, which is not an address of this machine{by}",
            "use an address of this machine's interfaces, or give this process the index of its own address",
        )
    if seen.own_port_free is False:
        yield Fault(
            f"the port of {config.name}, {config.own_address}, is taken",
            "end the process that listens there (an earlier run, or a second one with this index), or use another port",
        )
    for name, why in seen.unreachable.items():
        address = dict(config.members).get(name, "")
        yield Fault(
            f"{name} at {address} cannot be reached from here: {why}",
            "check for a misspelled name, a firewall, or an address of an interface that the machines do not share",
        )


def faults_among(configs: Sequence[TfConfig]) -> Iterator[Fault]:
    """Yield the inconsistencies between the configurations of the processes of one cluster."""
    first = configs[0]
    for other in configs[1:]:
        if other.cluster != first.cluster:
            yield Fault(f"{first.name} and {other.name} have different clusters", _difference(first, other))
    names = [config.name for config in configs]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Fault(f"{names.count(name)} processes are configured as {name}", "give each its own index")
    missing = [name for name, _ in first.members if name not in names]
    if missing:
        yield Fault(
            f"no process is {', '.join(missing)}", "all others wait for it: start it, or remove it from the cluster"
        )


def _difference(one: TfConfig, other: TfConfig) -> str:
    mine, its = dict(one.members), dict(other.members)
    name = next((name for name in [*mine, *its] if mine.get(name) != its.get(name)), "")
    if not name:
        return "the order of the roles differs"
    return f"{name} is {mine.get(name, 'not listed')} in one and {its.get(name, 'not listed')} in the other; make them the same"
