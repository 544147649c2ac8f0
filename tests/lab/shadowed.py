"""Copies in the place of a package's own, broken or wrong, and who put their places on the path; and harmless ones."""

from __future__ import annotations

import os
import pathlib
import shutil
import struct
import subprocess

from lab import targets
from lab.damage import deleted, started_with, truncated
from lab.machine import CUSOLVER, Machine
from lab.place import Change, Place
from lab.roots import ANOTHER_USER

_LOCAL, _SHADOWED, _OLDER = "local_module_shadows_tensorflow", "library_shadowed", "ld_library_path_shadows_pip_libs"
_OPT, _PY = "{root}/opt/other", "{root}/opt/py"
_I386, _X86_64, _AARCH64 = 3, 62, 183  # e_machine
_TWICE = "print 'hello'\n"  # Python 2


def library(pattern: str, *, length: int = 4096, name: str = "", folder: str = "opt/other") -> Change:
    """The beginning of one of the wheels' libraries, in a folder of the root; the whole file where `length` is -1."""

    def change(place: Place) -> None:
        (own,) = targets.site_packages(place.of_release(place.release)).glob(pattern)
        new = _folder(place, folder) / (name or own.name)
        if length < 0:
            shutil.copy(own, new)
        else:
            new.write_bytes(own.read_bytes()[:length])

    return change


def file(path: str, content: str | bytes = "") -> Change:
    """A file of one's own, below the root."""

    def change(place: Place) -> None:
        new = _folder(place, os.path.dirname(path)) / os.path.basename(path)
        new.write_bytes(content.encode() if isinstance(content, str) else content)

    return change


def here(path: str, content: str = "") -> Change:
    """A file of one's own, below the working folder."""

    def change(place: Place) -> None:
        new = place.folder / path
        new.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(content)

    return change


def elf(machine: int, bits: int) -> bytes:
    """The header of a shared library for some machine."""
    head = b"\x7fELF" + bytes((bits // 32, 1, 1)) + bytes(9)
    return head + struct.pack("<HHI", 3, machine, 1) + bytes(200)


def cudnn_alone(place: Place) -> None:
    """libcudnn.so.9 of an older cuDNN, without the libraries that belong to it."""
    own = targets.part(place.targets, "cudnn-9.1") / "nvidia/cudnn/lib/libcudnn.so.9"
    os.link(own, _folder(place, "opt/other") / "libcudnn.so.9")


def cudnn_of_a_toolkit(place: Place) -> None:
    """The same, named as in NVIDIA's archive, which tells its version."""
    own = targets.part(place.targets, "cudnn-9.1") / "nvidia/cudnn/lib/libcudnn.so.9"
    folder = _folder(place, "opt/other")
    os.link(own, folder / "libcudnn.so.9.1.0")
    (folder / "libcudnn.so.9").symlink_to("libcudnn.so.9.1.0")


def dangling(place: Place) -> None:
    (_folder(place, "opt/other") / "libcusparse.so.12").symlink_to("libcusparse.so.12.0.0")


def unreadable(place: Place) -> None:
    library("nvidia/cublas/lib/libcublas.so.12")(place)
    (_folder(place, "opt/other") / "libcublas.so.12").chmod(0)


def a_folder(place: Place) -> None:
    _folder(place, "opt/other/libcufft.so.11")


def whole_six(place: Place) -> None:
    shutil.copy(targets.site_packages(place.of_release(place.release)) / "six.py", _folder(place, "opt/py"))


def older_protobuf(place: Place) -> None:
    """A protobuf of one's own with nothing that TensorFlow needs, as 3.20 has it: the version, and no runtime_version."""
    file("opt/py/google/protobuf/__init__.py", "__version__ = '3.20.3'\n")(place)
    file("opt/py/protobuf-3.20.3.dist-info/METADATA", "Name: protobuf\nVersion: 3.20.3\n\n")(place)
    file("opt/py/protobuf-3.20.3.dist-info/RECORD", "google/protobuf/__init__.py,,\n")(place)
    started_with(f"import sys; sys.path.insert(0, '{place.root}/opt/py')")(place)


def numpy_of_another_python(place: Place) -> None:
    """A numpy compiled for another Python, as ROS or Debian put it on PYTHONPATH: its compiled parts have other names."""
    own = targets.site_packages(place.of_release(place.release)) / "numpy"
    new = _folder(place, "opt/py") / "numpy"
    shutil.copytree(own, new, copy_function=os.link)
    for path in list(new.rglob("*.cpython-*.so")):
        path.rename(path.with_name(path.name.replace("cpython-3", "cpython-1")))


def by_ld_so_conf(place: Place) -> None:
    """A cache that knows a whole libcusolver, by a line of a file that ld.so.conf includes; then the file was cut off."""
    (own,) = targets.site_packages(place.of_release(place.release)).glob(_CUSOLVER)
    os.link(own, _folder(place, "opt/other") / own.name)
    conf = _folder(place, "conf")
    (conf / "zz-old.conf").write_text(f"# of an older machine\n{place.root}/opt/other\n")
    (conf / "ld.so.conf").write_text(f"include /etc/ld.so.conf.d/*.conf\ninclude {conf}/zz-*.conf\n")
    command = ["/sbin/ldconfig", "-X", "-f", str(conf / "ld.so.conf"), "-C", str(conf / "ld.so.cache")]
    subprocess.run(command, check=True, capture_output=True)
    (place.root / "opt/other" / own.name).unlink()
    library(_CUSOLVER)(place)


def two_damaged(place: Place) -> None:
    for pattern in (_CUBLAS, "nvidia/cufft/lib/libcufft.so.11"):
        library(pattern)(place)


def beside_the_driver(place: Place) -> None:
    """A damaged libcufft in the folder of the driver's own libraries, which must stay on the path."""
    library("nvidia/cufft/lib/libcufft.so.11", folder="../driver")(place)


def whole_astunparse_and_broken_six(place: Place) -> None:
    """A harmless copy of astunparse on the path, and an installed six that is damaged."""
    shutil.copytree(place.site / "astunparse", _folder(place, "opt/py") / "astunparse", copy_function=os.link)
    deleted("six.py")(place)
    (place.site / "six.py").write_text("x = 1\n")


def linked(place: Place) -> None:
    library(_CUBLAS)(place)
    (place.root / "opt/link").symlink_to("other")


def cublaslt_of_older_cuda(place: Place) -> None:
    own = targets.site_packages(place.of_release("2.18.1")) / "nvidia/cublas/lib/libcublasLt.so.12"
    os.link(own, _folder(place, "opt/other") / own.name)


def put_first_by_sitecustomize(place: Place) -> None:
    file("opt/start/sitecustomize.py", f"import sys\nsys.path.insert(0, '{place.root}' + '/opt' + '/py')\n")(place)
    file("opt/py/six.py", "x = 1\n")(place)


def of_32_bits_and_own_deleted(place: Place) -> None:
    file("opt/other/libcufft.so.11", elf(_I386, 32))(place)
    deleted("nvidia/cufft/lib/libcufft.so.11")(place)


def _folder(place: Place, path: str) -> pathlib.Path:
    (place.root / path).mkdir(parents=True, exist_ok=True)
    return place.root / path


def _python(path: str = _PY) -> dict[str, str]:
    return {"PYTHONPATH": path}


_CUBLAS, _CUDART = "nvidia/cublas/lib/libcublas.so.12", "nvidia/cuda_runtime/lib/libcudart.so.12"
_FIRST = (_OPT, CUSOLVER)

_CUSOLVER = "nvidia/cusolver/lib/libcusolver.so.11"
# A configuration of the loader in the place of the machine's own, which only this command sees.
_OWN_CACHE = ("unshare", "--mount", "sh", "-c",
              'for name in conf cache; do mount --bind "$0/conf/ld.so.$name" "/etc/ld.so.$name"; done && exec "$@"',
              "{root}")  # fmt: skip

# Those of the issue.
REPORTED = (
    Machine("cublas-truncated-first", _SHADOWED, "opt/other/libcublas.so.12", done=(library(_CUBLAS),), library_path=_FIRST),
    Machine("older-cudnn-alone-first", _SHADOWED, "opt/other/libcudnn.so.9", done=(cudnn_alone,), library_path=_FIRST),
    Machine("typing-extensions-on-pythonpath", _SHADOWED, "opt/py/typing_extensions.py",
            done=(file("opt/py/typing_extensions.py", "Literal = None\n"),), variables=_python()),
)  # fmt: skip
LIBRARIES = (
    Machine("cudart-truncated-first", _SHADOWED, "opt/other/libcudart.so.12", done=(library(_CUDART),), library_path=_FIRST),
    Machine("cufft-empty-second-entry-2.18.1", _SHADOWED, "opt/other/libcufft.so.11", target="2.18.1",
            done=(library("nvidia/cufft/lib/libcufft.so.11", length=0),), library_path=("{root}/opt", _OPT)),
    Machine("cublas-of-32-bits-first", "", done=(file("opt/other/libcublas.so.12", elf(_I386, 32)),), library_path=_FIRST),
    Machine("cudart-of-aarch64-first", "", done=(file("opt/other/libcudart.so.12", elf(_AARCH64, 64)),), library_path=_FIRST),
    Machine("cusparse-dangling-first", "", done=(dangling,), library_path=_FIRST),
    Machine("cublas-unreadable-first", "", done=(unreadable,), library_path=_FIRST, under=ANOTHER_USER),
    Machine("cudnn-is-a-web-page", _SHADOWED, "opt/other/libcudnn.so.9",
            done=(file("opt/other/libcudnn.so.9", "<!DOCTYPE html>\n" * 90),), library_path=_FIRST),
    Machine("nvjitlink-truncated-first", _SHADOWED, "opt/other/libnvJitLink.so.12",
            done=(library("nvidia/nvjitlink/lib/libnvJitLink.so.12"),), library_path=_FIRST),
    Machine("cufft-is-a-folder", _SHADOWED, "opt/other/libcufft.so.11", done=(a_folder,), library_path=_FIRST),
    Machine("cudnn-of-toolkit-alone-first", _OLDER, "opt/other/libcudnn.so.9", done=(cudnn_of_a_toolkit,), library_path=_FIRST),
    Machine("cublas-truncated-in-working-folder", _SHADOWED, "libcublas.so.12", library_path=("", CUSOLVER),
            done=(here("libcublas.so.12", "\x7fELF"),)),
    Machine("libcuda-truncated-first", _SHADOWED, "opt/other/libcuda.so.1",
            done=(library(_CUDART, name="libcuda.so.1"),), variables={"LD_LIBRARY_PATH": f"{_OPT}:{{driver}}:{CUSOLVER}"}),
    Machine("nvml-truncated-first", _SHADOWED, "opt/other/libnvidia-ml.so.1",
            done=(library(_CUDART, name="libnvidia-ml.so.1"),), variables={"LD_LIBRARY_PATH": f"{_OPT}:{{driver}}:{CUSOLVER}"}),
)  # fmt: skip
MODULES = (
    Machine("six-in-working-folder", _LOCAL, "/six.py", done=(here("six.py", "x = 1\n"),)),
    Machine("numpy-on-pythonpath", _SHADOWED, "opt/py/numpy.py", done=(file("opt/py/numpy.py", "x = 1\n"),), variables=_python()),
    Machine("google-on-pythonpath", _SHADOWED, "opt/py/google/__init__.py", done=(file("opt/py/google/__init__.py"),),
            variables=_python("{root}/opt/empty:" + _PY)),
    Machine("older-protobuf-by-pth", _SHADOWED, "opt/py/google/protobuf", done=(older_protobuf,)),
    Machine("ml-dtypes-in-working-folder", _LOCAL, "/ml_dtypes/__init__.py", done=(here("ml_dtypes/__init__.py"),)),
    Machine("absl-on-pythonpath", _SHADOWED, "opt/py/absl/__init__.py", done=(file("opt/py/absl/__init__.py"),),
            variables=_python()),
    Machine("wrapt-of-python-2-on-pythonpath", _SHADOWED, "opt/py/wrapt.py", done=(file("opt/py/wrapt.py", _TWICE),),
            variables=_python()),
    Machine("whole-six-on-pythonpath", "", done=(whole_six,), variables=_python()),
    Machine("h5py-that-exits-in-working-folder", _LOCAL, "/h5py.py",
            done=(here("h5py.py", "raise SystemExit('usage: h5py FILE')\n"),)),
    Machine("numpy-of-another-python-on-pythonpath", _SHADOWED, "opt/py/numpy/__init__.py",
            done=(numpy_of_another_python,), variables=_python()),
    Machine("folder-named-tensorflow-on-pythonpath", "", done=(file("opt/py/tensorflow/README.md"),), variables=_python()),
)  # fmt: skip
MORE = (
    Machine("cusolver-truncated-by-ld-so-conf", _SHADOWED, "zz-old.conf, line 2", done=(by_ld_so_conf,), library_path=(),
            under=_OWN_CACHE, as_root=True, only_of="2.21.0"),
    Machine("nvjitlink-of-older-cuda-first", _OLDER, "nvjitlink/lib/libnvJitLink.so.12",
            library_path=("{site of 2.18.1}/nvidia/nvjitlink/lib", CUSOLVER)),
    Machine("cublaslt-of-older-cuda-first-opens", "", done=(cublaslt_of_older_cuda,), library_path=_FIRST),
    Machine("two-truncated-first", _SHADOWED, "1 more", done=(two_damaged,), library_path=_FIRST),
    Machine("cufft-truncated-beside-the-driver", _SHADOWED, "driver/libcufft.so.11", done=(beside_the_driver,)),
    Machine("six-on-relative-pythonpath", _SHADOWED, "entry 1 of PYTHONPATH: lib", done=(here("lib/six.py", "x = 1\n"),),
            variables=_python("lib")),
    Machine("six-by-sitecustomize", _SHADOWED, "opt/py/six.py", done=(put_first_by_sitecustomize,),
            variables=_python("{root}/opt/start")),
    Machine("unittest-on-pythonpath", _SHADOWED, "opt/py/unittest/__init__.py", variables=_python(),
            done=(file("opt/py/unittest/__init__.py", "x = 1\n"),)),
    Machine("whole-astunparse-on-pythonpath-and-broken-six", "undetermined", "six", variables=_python(),
            done=(whole_astunparse_and_broken_six,)),
    Machine("tensorflow-file-on-pythonpath", _LOCAL, "opt/py/tensorflow.py", done=(file("opt/py/tensorflow.py", "x = 1\n"),),
            variables=_python()),
    Machine("cublas-truncated-behind-a-link", _SHADOWED, "opt/link/libcublas.so.12", done=(linked,),
            library_path=("{root}/opt/link/", CUSOLVER)),
    Machine("cufft-of-32-bits-and-own-deleted", "gpu_libs_not_found", "nvidia-cufft-cu12", library_path=_FIRST,
            done=(of_32_bits_and_own_deleted,)),
    Machine("own-cudart-truncated", "gpu_libs_not_found", "nvidia-cuda-runtime-cu12", done=(truncated(_CUDART),)),
)  # fmt: skip
SHADOWED = (*REPORTED, *LIBRARIES, *MODULES, *MORE)
