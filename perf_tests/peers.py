"""Check a cluster's addresses: whether this worker's address is local and free, and which workers are reachable."""

from __future__ import annotations

import errno
import random
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tfgpu_doctor.fleet import Seen, TfConfig

_CONNECT_S = 5.0
_ASK_AGAIN_S = 2.0
_AT_ONCE = 32
_BELOW_EPHEMERAL = range(20000, 32000)  # Linux uses ports from 32768 on, net.ipv4.ip_local_port_range


def all_gone(addresses: Sequence[str], own: int) -> list[int]:
    """Return the indexes of the other workers to which two connection attempts in a row fail."""
    return [
        place
        for place, address in enumerate(addresses)
        if place != own and not _listens(address) and not _listens(address)
    ]


def look(config: TfConfig, names_s: float = 0.0) -> Seen:
    """Check the addresses before TensorFlow starts: no process has to listen yet, but every host must respond or refuse.

    Names may take `names_s` seconds to become resolvable, if a host gets its name when it starts.
    """
    until = time.monotonic() + names_s
    for _, address in config.members:
        while not _is_known(address) and time.monotonic() < until:
            time.sleep(_ASK_AGAIN_S)
    own = _bind(config.own_address) if config.own_address else None
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        why = list(pool.map(lambda other: _why_unreachable(other[1]), config.others))
    return Seen(
        own_here=None if own is None else own != errno.EADDRNOTAVAIL,
        own_port_free=None if own is None else own != errno.EADDRINUSE,
        goes_out_by=_goes_out_by(config.others[0][1]) if config.others else "",
        unreachable={name: reason for (name, _), reason in zip(config.others, why, strict=True) if reason},
    )


def free_addresses(count: int) -> list[str]:
    """Return `count` addresses on the loopback with free ports.

    Ports that the kernel uses for outgoing connections are excluded: a worker that waits for another could connect to itself.
    """
    found: list[str] = []
    # Not `random.sample`: suites seed the module's generator, and runs beside each other would draw the same ports.
    for port in random.SystemRandom().sample(_BELOW_EPHEMERAL, len(_BELOW_EPHEMERAL)):
        address = f"127.0.0.1:{port}"
        if _bind(address) == 0:
            found.append(address)
        if len(found) == count:
            return found
    raise OSError(errno.EADDRINUSE, f"fewer than {count} ports are free from {_BELOW_EPHEMERAL.start} on")


def _is_known(address: str) -> bool:
    try:
        socket.getaddrinfo(*_split(address), type=socket.SOCK_STREAM)
    except socket.gaierror:
        return False
    except ValueError:
        pass  # not a valid address: faults() reports it
    return True


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _bind(address: str) -> int | None:
    """Try to listen on an address; return 0 or the error number, None if the name or the permission is missing."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(*_split(address), type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            listener.listen()
            return 0
    except (socket.gaierror, ValueError):
        return None
    except OSError as error:
        return error.errno if error.errno in (errno.EADDRNOTAVAIL, errno.EADDRINUSE) else None


def _why_unreachable(address: str) -> str:
    try:
        with socket.create_connection(_split(address), timeout=_CONNECT_S):
            return ""
    except ConnectionRefusedError:
        return ""  # the host is up, but its process does not listen yet
    except socket.gaierror as error:
        return f"its name cannot be resolved ({error.strerror})"
    except TimeoutError:
        return f"no response within {_CONNECT_S:g} s"
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", "") or error)


def _goes_out_by(address: str) -> str:
    """Return the source address of a packet to another address, without sending one."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(*_split(address), type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as sender:
            sender.connect(place)
            return str(sender.getsockname()[0])
    except (OSError, ValueError):
        return ""


def _listens(address: str) -> bool:
    try:
        with socket.create_connection(_split(address), timeout=_CONNECT_S):
            return True
    except OSError:
        return False
