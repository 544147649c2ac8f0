"""Is this TensorFlow the wheel of the package index, of which it is known where it looks for CUDA?"""

from __future__ import annotations

from tfgpu_doctor.model.facts.python import Target, TensorFlow

# Poetry writes its version too, "Poetry 1.8.2"; pixi's is its constant PIXI_UV_INSTALLER
_INSTALLERS = ("pip", "uv", "uv-pixi", "poetry", "pdm", "")


def is_from_index(target: Target, tensorflow: TensorFlow) -> bool:
    """Return whether this is the index's wheel: others are built elsewhere, with folders of their own compiled in.

    The index takes no Linux wheel without manylinux in its tag, and no local version such as 2.17.0+computecanada
    (https://peps.python.org/pep-0513/, https://peps.python.org/pep-0440/#local-version-identifiers).
    """
    found = target.find(tensorflow.distribution)
    by_pip = bool(found and found.installer.lower().partition(" ")[0] in _INSTALLERS)
    built_elsewhere = "+" in tensorflow.version or "-linux_" in tensorflow.wheel_tag
    return by_pip and not built_elsewhere and not tensorflow.folder.startswith("/nix/store/")
