"""What is known beside the log, as people write it: `tf-nightly 2.21`, `Windows 11 + WSL2 Ubuntu 22.04, Docker`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

KEYS = ("tensorflow", "python", "driver", "cuda", "cudnn", "gpu", "os", "install_method")

# Word to what says it, looked for in `os`, `install_method` and `gpu`.
_WORDS = {
    "container": r"docker|podman|kubernetes|\bk8s\b|kubeflow|singularity|apptainer|container(?!.toolkit)|nvcr\.io|\bpod\b",
    "nix": r"\bnix",
    "snap": r"\bsnap\b",
    "rootful": r"rootful|no-cgroups",
    "rootless": r"rootless",
    "wsl": r"\bwsl",
    "wsl1": r"\bwsl ?1\b",
    "windows": r"windows",
    "macos": r"mac ?os|os ?x|darwin|apple",
    "arm": r"jetson|aarch64|arm64|orin|xavier|l4t|raspberry|grace",
    "optimus": r"bumblebee|optirun|optimus|prime-select|prime offload",
    "no_gpu": r"no (?:nvidia )?gpu|without (?:a |an )?(?:nvidia )?gpu|cpu[- ]only",
    "pip": r"\bpip\b|pypi|virtualenv|\bvenv\b|poetry|\buv\b",
    "conda": r"conda|mamba",
    "ide": r"pycharm|jupyter|notebook|vs ?code|spyder|intellij",
    "blackwell": r"\brtx ?(?:pro )?50[5-9]0|\bg?b[123]00\b|blackwell",
    # Fermi and older: no driver after 390 knows them (NVIDIA's list of legacy GPUs).
    "gpu_dropped": r"\bgeforce (?:gts? ?)?[2-5]\d0(?![\d ]?ti)\b|\bgt2\d\d\b|\b(?:8|9)[46-8]00 ?gt",
}
# Where gpu_device.cc says "Cannot dlopen some GPU libraries", by release: the number of the line in its source.
_RELEASE_OF_LINE = {"1956": "2.12", "1960": "2.13", "2251": "2.16", "2256": "2.16", "2365": "2.21"}


@dataclass(frozen=True)
class Given:
    """What is known of the machine, by key; empty where nothing was said."""

    values: Mapping[str, str]

    def knows(self, word: str) -> bool:
        """Whether a word is known to hold: one of those above, `gpu`, `no_toolkit`, or `tensorflow>=2.11` and the like."""
        comparison = re.fullmatch(r"(\w+)(>=|==|<)([\d.]+)", word)
        if comparison:
            return self._compares(*comparison.groups())
        if word == "gpu":
            return bool(self.values.get("gpu"))
        if word == "no_toolkit":
            return not self.values.get("cuda")
        if word == "windows":
            return self._says("windows") and not self._says("wsl")
        if word == "arm":
            return self._says("arm") and not self._says("macos")
        return self._says(word)

    def with_release(self, lines: Mapping[str, str]) -> Given:
        """The same, with the release of TensorFlow that the log itself shows where none was said.

        `lines` maps a signature to the text of a line of it.
        """
        found = re.search(r"gpu_device\.cc:(\d+)\]", lines.get("cannot_dlopen", ""))
        release = _RELEASE_OF_LINE.get(found.group(1), "") if found else ""
        if not release or self.values.get("tensorflow"):
            return self
        return Given({**self.values, "tensorflow": release})

    def _says(self, word: str) -> bool:
        text = " ".join(self.values.get(key, "") for key in ("os", "install_method", "gpu"))
        return re.search(_WORDS[word], text, re.IGNORECASE) is not None

    def _compares(self, key: str, operator: str, version: str) -> bool:
        known = _numbers(self.values.get(key, ""))
        wanted = [int(part) for part in version.split(".")]
        if not known:
            return False
        if operator == "==":
            return known[: len(wanted)] == wanted
        return known >= wanted if operator == ">=" else known < wanted


def _numbers(text: str) -> list[int]:
    """The first version in a text; "1.x" is 1."""
    found = re.search(r"\d+(?:\.\d+)*", text)
    return [int(part) for part in found.group().split(".")] if found else []
