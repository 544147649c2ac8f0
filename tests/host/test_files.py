"""The files of a machine are read under its root and nowhere else; a document is written whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import random
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tfgpu_doctor.host.files import Files, is_mount_point, write_whole

OUTSIDE, INSIDE = "outside", "inside"


@pytest.fixture
def twins(root: pathlib.Path) -> pathlib.Path:
    """The root of a machine with a /secret, beside which another file named secret lies outside the machine."""
    (root.parent / "secret").write_text(OUTSIDE)
    (root / "secret").write_text(INSIDE)
    return root


@pytest.mark.parametrize(
    "path",
    ["/secret", "secret", "//secret", "/./secret", "/../secret", "../secret", "/etc/../../secret", "/../../../secret/"],
)
def test_dots_do_not_lead_out_of_the_root(twins: pathlib.Path, path: str) -> None:
    assert Files(str(twins)).read_text(path) == INSIDE


@pytest.mark.parametrize(
    "target", ["/secret", "../secret", "../../secret", "../../../../../secret", "/../secret", "/etc/../../secret"]
)
def test_a_link_does_not_lead_out_of_the_root(twins: pathlib.Path, target: str) -> None:
    (twins / "etc/link").symlink_to(target)
    assert Files(str(twins)).read_text("/etc/link") == INSIDE


@pytest.mark.parametrize("target", ["/", "/..", "../..", "../../..", "."])
def test_a_link_to_a_folder_above_the_root_is_a_link_to_the_root(twins: pathlib.Path, target: str) -> None:
    (twins / "up").symlink_to(target)
    files = Files(str(twins))
    assert files.read_text("/up/secret") == INSIDE
    assert files.list_folder("/up") == ["etc", "secret", "up"]
    assert files.read_text("/up/up/../up/secret") == INSIDE


def test_a_link_to_a_file_outside_by_its_real_path_finds_nothing(twins: pathlib.Path) -> None:
    outside = twins.parent / "secret"
    (twins / "etc/link").symlink_to(outside)
    files = Files(str(twins))
    assert outside.exists()
    assert not files.exists("/etc/link")
    with pytest.raises(FileNotFoundError):
        files.read_text("/etc/link")
    assert files.text_if_any("/etc/link") == ""


def test_a_chain_of_links_stays_inside(twins: pathlib.Path) -> None:
    (twins / "a").symlink_to("/b")
    (twins / "b").symlink_to("../etc/c")
    (twins / "etc/c").symlink_to("../../../d/secret")
    (twins / "d").symlink_to("..")
    assert Files(str(twins)).read_text("/a") == INSIDE


def test_dots_after_a_link_go_up_from_where_it_leads(root: pathlib.Path) -> None:
    (root / "x/y").mkdir(parents=True)
    (root / "x/found").write_text("beside y")
    (root / "etc/y").symlink_to("/x/y")
    assert Files(str(root)).read_text("/etc/y/../found") == "beside y"


def test_every_way_to_read_is_confined(twins: pathlib.Path) -> None:
    (twins.parent / "folder").mkdir()
    (twins.parent / "folder/outside").touch()
    (twins / "folder").mkdir()
    (twins / "folder/inside").touch()
    files = Files(str(twins))
    assert files.read_bytes("/../secret") == INSIDE.encode()
    assert files.text_if_any("/../secret") == INSIDE
    with files.open_binary("/../secret") as file:
        assert file.read() == INSIDE.encode()
    assert files.list_folder("/../folder") == ["inside"]
    assert files.names_if_any("/../folder") == ["inside"]
    assert not files.exists("/../folder/outside")
    assert files.status("/../secret").size_bytes == len(INSIDE)
    assert files.real_path("/../secret") == "/secret"


def test_a_link_is_read_as_written_and_its_folder_is_confined(root: pathlib.Path) -> None:
    (root.parent / "folder").mkdir()
    (root.parent / "folder/link").symlink_to("of outside")
    (root / "folder").mkdir()
    (root / "folder/link").symlink_to("../../bus/drivers/nvidia")
    (root / "etc/up").symlink_to("../..")
    files = Files(str(root))
    assert files.link_target("/folder/link") == "../../bus/drivers/nvidia"
    assert files.link_target("/../folder/link") == "../../bus/drivers/nvidia"
    assert files.link_target("/etc/up/folder/link") == "../../bus/drivers/nvidia"


def test_what_is_no_link_has_no_target(root: pathlib.Path) -> None:
    files = Files(str(root))
    for path in ("/etc", "/missing", "/etc/..", "/.."):
        with pytest.raises(OSError, match=r".+"):
            files.link_target(path)


def test_a_root_given_as_a_link_or_relatively_is_the_same_machine(
    twins: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (twins.parent / "linked").symlink_to("machine")
    assert Files(str(twins.parent / "linked")).read_text("/../secret") == INSIDE
    monkeypatch.chdir(twins.parent)
    files = Files("machine")
    monkeypatch.chdir("/")
    assert files.read_text("../secret") == INSIDE


def test_without_a_root_paths_are_this_machines(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").write_text("relative")
    monkeypatch.chdir(tmp_path)
    files = Files()
    assert files.read_text("here") == "relative"
    assert files.read_text(f"{tmp_path}/../{tmp_path.name}/here") == "relative"


READER = """
import json, os, sys
root, paths = sys.argv[1], json.load(sys.stdin)
os.chroot(root)
os.chdir("/")
answer = {}
for path in paths:
    try:
        with open(path) as file:
            answer[path] = file.read()
    except OSError as error:
        answer[path] = type(error).__name__
sys.stdout.write(json.dumps(answer))
"""


def tangle(root: pathlib.Path, seed: int) -> list[str]:
    """Fill a machine with folders, files and links in all directions; paths to try."""
    chance = random.Random(seed)
    folders = ["", *(f"{first}{second}" for first in ("a", "b") for second in ("", "/c", "/d"))]
    for folder in folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "file").write_text(f"file of /{folder}")
    (root.parent / "file").write_text("of outside")
    links = [f"link{number}" for number in range(8)]
    for folder in folders:
        for link in links:
            climb = chance.choice(["", "/", "../", "../../", "../../../", "/../", "./"])
            (root / folder / link).symlink_to(climb + chance.choice([*folders, *folders, *links, "file"]) or ".")
    starts = [f"/{folder}" for folder in folders]
    return [
        "/".join([chance.choice(starts), *chance.choices(links, k=chance.randrange(1, 4)), "file"]) for _ in range(400)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_any_tangle_of_links_is_read_as_after_a_chroot(root: pathlib.Path, seed: int) -> None:
    if not hasattr(os, "chroot") or os.geteuid() != 0:
        pytest.skip("only root may chroot")
    paths = tangle(root, seed)
    asked = subprocess.run(
        [sys.executable, "-I", "-S", "-c", READER, str(root)], input=json.dumps(paths), capture_output=True, text=True, check=True
    )  # fmt: skip
    files = Files(str(root))
    answer = {}
    for path in paths:
        try:
            answer[path] = files.read_text(path)
        except OSError as error:
            answer[path] = type(error).__name__
    assert answer == json.loads(asked.stdout)
    assert sum(text.startswith("file of") for text in answer.values()) > 50


def test_dots_after_a_folder_that_is_not_there_lead_nowhere(twins: pathlib.Path) -> None:
    assert not os.path.exists(f"{twins}/missing/../secret")
    assert not Files(str(twins)).exists("/missing/../secret")


@pytest.fixture
def ring(root: pathlib.Path) -> pathlib.Path:
    (root / "self").symlink_to("self")
    (root / "first").symlink_to("/etc/second")
    (root / "etc/second").symlink_to("../first")
    (root / "deeper").symlink_to("deeper/and/deeper")
    return root


RINGS = ("/self", "/first", "/etc/second", "/deeper", "/self/below")


@pytest.mark.parametrize("path", RINGS)
def test_reading_a_ring_of_links_is_an_error_and_ends(ring: pathlib.Path, path: str) -> None:
    files = Files(str(ring))
    for read in (
        files.read_text,
        files.read_bytes,
        files.status,
        files.list_folder,
        files.open_binary,
        files.real_path,
    ):
        with pytest.raises(OSError, match="symbolic links"):
            read(path)
    assert files.text_if_any(path) == ""
    assert files.names_if_any(path) == []


@pytest.mark.parametrize("path", RINGS)
def test_a_ring_of_links_does_not_exist(ring: pathlib.Path, path: str) -> None:
    assert not Files(str(ring)).exists(path)


def test_a_ring_of_links_of_this_machine_does_not_exist(ring: pathlib.Path) -> None:
    assert not Files().exists(f"{ring}/self")


def test_a_ring_of_links_of_this_machine_has_no_real_path(ring: pathlib.Path) -> None:
    with pytest.raises(OSError, match="symbolic links"):
        Files().real_path(f"{ring}/self")


@pytest.mark.parametrize("count", [1, 10, 39, 40, 41, 60])
def test_as_many_links_are_followed_as_linux_follows(root: pathlib.Path, count: int) -> None:
    (root / "link0").write_text("the end")
    for number in range(count):
        (root / f"link{number + 1}").symlink_to(f"link{number}")
    path = f"link{count}"
    try:
        kernel = (root / path).read_text()
    except OSError:
        kernel = ""
    assert Files(str(root)).text_if_any(path) == kernel
    assert bool(kernel) == (count <= 40)


def test_real_path_names_the_file_as_the_machine_does(root: pathlib.Path) -> None:
    (root / "usr/lib").mkdir(parents=True)
    (root / "usr/lib/libcuda.so.550.54.15").touch()
    (root / "usr/lib/libcuda.so.1").symlink_to("libcuda.so.550.54.15")
    (root / "lib").symlink_to("usr/lib")
    files = Files(str(root))
    assert files.real_path("/lib/libcuda.so.1") == "/usr/lib/libcuda.so.550.54.15"
    assert Files().real_path(f"{root}/lib/libcuda.so.1") == f"{os.path.realpath(root)}/usr/lib/libcuda.so.550.54.15"


def test_real_path_of_the_root_is_the_root(root: pathlib.Path) -> None:
    assert Files().real_path("/") == "/"
    assert Files(str(root)).real_path("/") == "/"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/sys is Linux's")
def test_settings_of_the_kernel_are_read() -> None:
    """Its numbers come to nobody who asks for 4 MiB at once: ENOMEM."""
    assert Files().read_text("/proc/sys/kernel/pid_max").strip().isdecimal()


def test_bytes_are_read_up_to_the_limit(root: pathlib.Path) -> None:
    (root / "etc/long").write_bytes(b"0123456789")
    files = Files(str(root))
    assert files.read_bytes("/etc/long", limit=4) == b"0123"
    assert files.read_bytes("/etc/long", limit=10) == b"0123456789"
    assert files.read_bytes("/etc/long", limit=100) == b"0123456789"


def test_a_large_file_is_read_up_to_4_mib(root: pathlib.Path) -> None:
    with (root / "etc/large").open("wb") as file:
        file.truncate(1 << 40)
    assert len(Files(str(root)).read_bytes("/etc/large")) == 4 << 20
    assert len(Files(str(root)).read_text("/etc/large")) == 4 << 20


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
def test_what_is_no_file_is_neither_waited_for_nor_read(root: pathlib.Path) -> None:
    os.mkfifo(root / "etc/pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "etc/socket"))
        (root / "etc/link").symlink_to("pipe")
        files = Files(str(root))
        before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        for path in ("/etc/pipe", "/etc/socket", "/etc/link", "/etc"):
            for read in (files.read_bytes, files.read_text, files.open_binary, lambda path: files.read_end(path, 10)):
                with pytest.raises(OSError, match=r"not a regular file|No such device or address|Is a directory"):
                    read(path)
            assert files.text_if_any(path) == ""
        assert before == (len(os.listdir("/proc/self/fd")) if before else 0)
    for device in ("/dev/zero", "/dev/null"):
        if os.path.exists(device):
            with pytest.raises(OSError, match="not a regular file"):
                Files().read_bytes(device)


def test_undecodable_bytes_are_replaced(root: pathlib.Path) -> None:
    (root / "etc/junk").write_bytes(b"ab\xff\xfe\0c\xc3")
    assert Files(str(root)).read_text("/etc/junk") == "ab\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}\0c\N{REPLACEMENT CHARACTER}"  # fmt: skip


def test_names_in_a_folder_are_sorted(root: pathlib.Path) -> None:
    for name in ("nvidia1", "nvidia0", "nvidiactl", ".hidden"):
        (root / "etc" / name).touch()
    assert Files(str(root)).list_folder("/etc") == [".hidden", "nvidia0", "nvidia1", "nvidiactl"]


def test_a_folder_is_no_text_and_a_file_no_folder(root: pathlib.Path) -> None:
    (root / "etc/file").write_text("text")
    files = Files(str(root))
    with pytest.raises(IsADirectoryError):
        files.read_text("/etc")
    assert files.text_if_any("/etc") == ""
    with pytest.raises(NotADirectoryError):
        files.list_folder("/etc/file")
    assert files.names_if_any("/etc/file") == []
    assert not files.exists("/etc/file/below")


def test_what_is_missing_is_missing(root: pathlib.Path) -> None:
    files = Files(str(root))
    for read in (files.read_text, files.read_bytes, files.status, files.list_folder, files.folder_capacity_bytes):
        with pytest.raises(FileNotFoundError):
            read("/proc/missing")
    assert not files.exists("/proc/missing")
    assert files.text_if_any("/proc/missing") == ""
    assert files.names_if_any("/proc/missing") == []


@pytest.mark.usefixtures("as_user")
def test_what_may_not_be_read_is_a_permission_error(root: pathlib.Path) -> None:
    (root / "etc/mine").write_text("secret")
    (root / "etc/mine").chmod(0)
    (root / "closed").mkdir()
    (root / "closed/file").write_text("secret")
    (root / "closed").chmod(0)
    files = Files(str(root))
    try:
        for path in ("/etc/mine", "/closed/file"):
            with pytest.raises(PermissionError):
                files.read_text(path)
            assert files.text_if_any(path) == ""
        with pytest.raises(PermissionError):
            files.list_folder("/closed")
        assert files.names_if_any("/closed") == []
        assert not files.exists("/closed/file")
        assert files.exists("/etc/mine")
    finally:
        (root / "closed").chmod(0o700)


def test_status_tells_kinds_apart(root: pathlib.Path) -> None:
    (root / "etc/file").write_bytes(b"12345")
    (root / "etc/file").chmod(0o640)
    os.mkfifo(root / "etc/pipe")
    (root / "etc/link").symlink_to("file")
    files = Files(str(root))
    assert files.status("/etc").kind == "folder"
    assert files.status("/etc/pipe").kind == "other"
    for path in ("/etc/file", "/etc/link"):
        found = files.status(path)
        assert (found.kind, found.size_bytes, stat.S_IMODE(found.mode)) == ("file", 5, 0o640)
        assert (found.uid, found.gid) == (os.stat(root / "etc/file").st_uid, os.stat(root / "etc/file").st_gid)


def test_status_of_a_device_has_its_numbers() -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("the numbers are those of Linux")
    found = Files().status("/dev/null")
    assert (found.kind, found.major, found.minor) == ("character device", 1, 3)


def test_capacity_is_that_of_the_file_system(root: pathlib.Path) -> None:
    system = os.statvfs(root)
    assert Files(str(root)).folder_capacity_bytes("/etc") == system.f_blocks * system.f_frsize > 0


def names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_document_is_written_whole(tmp_path: pathlib.Path) -> None:
    content = os.urandom(300_000)
    write_whole(str(tmp_path / "report.json"), content)
    assert (tmp_path / "report.json").read_bytes() == content
    assert names(tmp_path) == ["report.json"]


def test_a_document_is_replaced(tmp_path: pathlib.Path) -> None:
    (tmp_path / "report.json").write_text("a document of last week, and longer")
    write_whole(str(tmp_path / "report.json"), b"new")
    assert (tmp_path / "report.json").read_bytes() == b"new"
    assert names(tmp_path) == ["report.json"]


def test_a_document_in_the_working_folder_is_written_by_its_bare_name(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_whole("report.json", b"{}")
    assert (tmp_path / "report.json").read_bytes() == b"{}"


def test_a_document_in_a_missing_folder_is_an_error_and_nothing_is_written(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(str(tmp_path / "missing/report.json"), b"{}")
    assert names(tmp_path) == []


def test_a_folder_is_not_overwritten(tmp_path: pathlib.Path) -> None:
    (tmp_path / "report.json").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(str(tmp_path / "report.json"), b"{}")
    assert names(tmp_path) == ["report.json"]
    assert names(tmp_path / "report.json") == []


@pytest.mark.usefixtures("as_user")
def test_a_folder_without_permission_is_an_error_and_nothing_is_written(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o500)
    try:
        with pytest.raises(PermissionError):
            write_whole(str(folder / "report.json"), b"{}")
        assert names(folder) == []
    finally:
        folder.chmod(0o700)


WRITER = """
import resource, sys
from tfgpu_doctor.host.files import write_whole
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
try:
    write_whole(sys.argv[1], b"x" * 1_000_000)
except OSError as error:
    sys.exit(error.errno)
"""


@pytest.mark.parametrize("before", [None, "the document of yesterday"])
def test_a_write_that_fails_halfway_leaves_what_was_there(tmp_path: pathlib.Path, before: str | None) -> None:
    document = tmp_path / "report.json"
    if before is not None:
        document.write_text(before)
    done = subprocess.run([sys.executable, "-c", WRITER, str(document)], check=False, timeout=60)
    assert done.returncode == errno.EFBIG
    assert names(tmp_path) == ([] if before is None else ["report.json"])
    assert before is None or document.read_text() == before


@pytest.mark.parametrize("there", [True, False])
def test_a_document_behind_a_link_is_written_where_the_link_points(tmp_path: pathlib.Path, there: bool) -> None:
    (tmp_path / "kept").mkdir()
    if there:
        (tmp_path / "kept/report.json").write_text("old")
    (tmp_path / "latest").symlink_to("kept/report.json")
    write_whole(str(tmp_path / "latest"), b"new")
    assert (tmp_path / "latest").is_symlink()
    assert (tmp_path / "kept/report.json").read_bytes() == b"new"
    assert names(tmp_path) == ["kept", "latest"]
    assert names(tmp_path / "kept") == ["report.json"]


def test_one_who_reads_sees_only_whole_documents(tmp_path: pathlib.Path) -> None:
    document = tmp_path / "report.json"
    versions = [bytes([65 + number]) * 200_000 for number in range(4)]
    write_whole(str(document), versions[0])
    enough = threading.Event()

    def write() -> None:
        number = 0
        while number < 40 or not enough.is_set():
            write_whole(str(document), versions[number % 4])
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    try:
        while writer.is_alive():
            seen.append(document.read_bytes())
            if len(seen) == 40:
                enough.set()
    finally:
        enough.set()
        writer.join()
    assert seen
    assert all(content in versions for content in seen)


@pytest.fixture
def mounted(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file on which another, "outside", is mounted. Both have a space in their names, which Linux lists in octal digits."""
    outside, document = tmp_path / "the outside", tmp_path / "a report.json"
    outside.write_text("a document of last week, and longer")
    document.touch()
    if not shutil.which("mount"):
        pytest.skip("there is no mount")
    done = subprocess.run(["mount", "--bind", str(outside), str(document)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield document
    finally:
        subprocess.run(["umount", str(document)], check=True)


def test_a_document_that_is_a_mount_is_written_in_place(mounted: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """No rename replaces it: EBUSY."""
    assert is_mount_point(str(mounted))
    write_whole(str(mounted), b"new")
    assert mounted.read_bytes() == (tmp_path / "the outside").read_bytes() == b"new"
    assert names(tmp_path) == ["a report.json", "the outside"]


def test_a_document_behind_a_link_may_be_a_mount(mounted: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "latest").symlink_to(mounted.name)
    assert is_mount_point(str(tmp_path / "latest"))
    write_whole(str(tmp_path / "latest"), b"new")
    assert (tmp_path / "the outside").read_bytes() == b"new"
    assert (tmp_path / "latest").is_symlink()


def test_an_ordinary_file_is_no_mount(tmp_path: pathlib.Path) -> None:
    (tmp_path / "report.json").touch()
    assert not is_mount_point(str(tmp_path / "report.json"))
    assert not is_mount_point(str(tmp_path / "missing"))


def test_dev_null_swallows_a_document_and_stays_a_device() -> None:
    write_whole("/dev/null", b"{}")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert os.stat("/dev/null").st_size == 0


def test_a_full_device_is_an_error() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    with pytest.raises(OSError, match=r".+") as caught:
        write_whole("/dev/full", b"{}")
    assert caught.value.errno == errno.ENOSPC


def test_a_pipe_gets_the_document_and_stays_a_pipe(tmp_path: pathlib.Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = os.urandom(200_000)  # more than a pipe holds
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_whole(str(pipe), content)
    reader.join(60)
    assert got == [content]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(tmp_path) == ["pipe"]


@pytest.mark.parametrize(("limit", "content"), [(4, "6789"), (10, "0123456789"), (99, "0123456789"), (0, "")])
def test_the_end_of_a_file_is_read(root: pathlib.Path, limit: int, content: str) -> None:
    (root / "log").write_text("0123456789")
    assert Files(str(root)).read_end("/log", limit) == content.encode()


def test_the_end_of_what_is_no_file_is_not_waited_for(root: pathlib.Path) -> None:
    os.mkfifo(root / "pipe")
    for path, words in (("/pipe", "not a regular file"), ("/etc", "Is a directory")):
        with pytest.raises(OSError, match=words):
            Files(str(root)).read_end(path, 10)
