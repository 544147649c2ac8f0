"""Where a program's data come from, as its recorder saw it: a network, a disk, or the memory of the kernel."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tfgpu_doctor.host.json_text import decode_json
from tfgpu_doctor.tracing.host_memory import HostMemory
from tfgpu_doctor.tracing.taken_cpus import TakenCpus

# File systems of other machines, as the kernel names them (https://www.kernel.org/doc/html/latest/filesystems/) and their
# vendors do. Those in a process of the user are fuse.NAME (https://man7.org/linux/man-pages/man8/mount.fuse3.8.html), and
# some say their name only as the source.
_NETWORK = frozenset(
    (
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "orangefs",
        "panfs", "pvfs2", "smb3", "smbfs", "virtiofs", "wekafs",
    )
)  # fmt: skip
_NETWORK_FUSE = frozenset(
    (
        "alluxio-fuse", "blobfuse", "blobfuse2", "ceph", "ceph-fuse", "curlftpfs", "cvmfs2", "davfs", "dbfs", "fuse_dfs",
        "gcsfuse", "geesefs", "glusterfs", "goofys", "hdfs", "juicefs", "mount-s3", "mountpoint-s3", "rclone", "s3fs",
        "seaweedfs", "sshfs",
    )
)  # fmt: skip
_CACHED = 0.1  # of the bytes come from storage: less is the kernel's memory
_MUCH_BYTES = 10 << 20


class DataSources(msgspec.Struct):
    """What one recording saw of a program's reading: files [path, file system, source], peers [address, connections].

    `read_bytes`: read by the program in all, and from storage, in `seconds`; None if it is not known. A network file
    system's bytes may be in the second number or not.
    """

    seconds: float = 0.0
    files: list[tuple[str, str, str]] = []
    peers: list[tuple[str, int]] = []
    read_bytes: tuple[int, int] | None = None
    memory: HostMemory = msgspec.field(default_factory=HostMemory)
    processors: TakenCpus = msgspec.field(default_factory=TakenCpus)

    @property
    def network(self) -> str:
        """Where on the network a file lies that the program reads, `nfs4 at server:/export`; empty if none does."""
        return next((f"{kind} at {source}" for _, kind, source in self.files if is_network(kind, source)), "")

    def said(self) -> Iterator[str]:
        """What this tells of a slow source."""
        remote = [path for path, kind, source in self.files if is_network(kind, source)]
        if remote:
            yield f"it reads {remote[0]}{_more(remote)} over a network: {self.network}"
        elif self.peers and not self.files:
            peer, count = self.peers[0]
            yield f"it has no file of data open, and {count} connection{'s' * (count > 1)} to {peer}: a network"
        elif self.files:
            path, kind, source = self.files[0]
            yield f"it reads {path}{_more([each[0] for each in self.files])}, on {kind or 'a file system'} at {source}"
        if self.read_bytes is not None and not remote and self.read_bytes[0] >= _MUCH_BYTES:
            total, stored = self.read_bytes
            yield (
                f"it read {_size(total)} in {self.seconds:.1f} s, {_size(stored)} of it from storage"
                + (
                    ": what takes the time is not the disk, but unpacking or parsing"
                    if stored < _CACHED * total
                    else ""
                )
            )


class _Document(msgspec.Struct):
    read: DataSources = msgspec.field(default_factory=DataSources)


def read_sources(content: bytes) -> DataSources:
    """Read this part of the recorder's file. msgspec.DecodeError."""
    return decode_json(content, _Document).read


def is_network(file_system: str, source: str = "") -> bool:
    """Whether a file system, with what is mounted, as /proc/self/mountinfo names them, is known to be on other machines."""
    kind, _, name = file_system.partition(".")
    return file_system in _NETWORK or (kind == "fuse" and not {name, source.lower()}.isdisjoint(_NETWORK_FUSE))


def _more(paths: list[str]) -> str:
    return f" and {len(paths) - 1} more" if len(paths) > 1 else ""


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
