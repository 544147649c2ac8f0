"""Context given in addition to the log, as free text: `tf-nightly 2.21`, `Windows 11 + WSL2 Ubuntu 22.04, Docker`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.log.signatures import Found

KEYS = ("tensorflow", "python", "driver", "cuda", "cudnn", "gpu", "os", "install_method")

# Word to the pattern that indicates it, searched for in `os`, `install_method` and `gpu`.
_WORDS = {
    "container": r"docker|podman|kubernetes|\bk8s\b|kubectl|kubeflow|singularity|apptainer|container(?!.toolkit)|nvcr\.io"
    r"|\bpod\b",
    "kubernetes": r"kubernetes|\bk8s\b|kubectl|kubeflow|\bpod\b",
    "scheduler": r"slurm|sbatch|\bsrun\b|\blsf\b|\bpbs\b|condor|\bsge\b|\bflux\b",
    "hosted": r"colab|kaggle|sagemaker|codespaces?",
    "nix": r"\bnix",
    "snap": r"\bsnap\b",
    "rootful": r"rootful|no-cgroups",
    "rootless": r"rootless",
    "wsl": r"\bwsl",
    "wsl1": r"\bwsl ?1\b",
    "windows": r"\bwin(?:dows|\d+|-64|32)?\b",
    "macos": r"mac ?os|os ?x|darwin|apple|macbook|\bmac\b",
    "arm": r"jetson|jetpack|\bjtop\b|aarch64|arm64|orin|xavier|\bnano\b|l4t|raspberry|grace|dgx spark|\bgb10\b|\bg[bh][23]00\b",
    "optimus": r"bumblebee|optirun|optimus|prime-select|prime offload",
    "no_gpu": r"no (?:nvidia )?gpu|without (?:a |an )?(?:nvidia )?gpu|cpu[- ]only",
    "linux": r"linux|ubuntu|debian|centos|fedora|red ?hat|rhel|manjaro|gentoo|mint|pop!?_os|suse|rocky|alma",
    "pip": r"\bpip\b|pypi|virtualenv|\bvenv\b|poetry|\buv\b",
    "laptop": r"laptop|notebook pc|thinkpad|max-q|\bmobile\b",
    "mig": r"\bmig\b",
    "selinux": r"selinux|enforcing",
    "torch": r"\btorch|pytorch",
    "conda": r"conda|mamba",
    "conda_cuda_build": r"\bbuild (?:cuda|gpu)\w*py",
    "no_python": r"\btfjs\b|node\.js|\bnpm\b|nextcloud|tensorflow for (?:java|rust|go)\b",
    "r": r"\breticulate\b|\brstudio\b",
    "torch_alone": r"\bpytorch alone\b",
    "jax": r"\bjax(?:lib)?\b",
    "ide": r"pycharm|jupyter|notebook|vs ?code|spyder|intellij",
    "blackwell": r"\brtx ?(?:pro )?50[5-9]0|\bg?b[123]00\b|\bgb10\b|dgx spark|\bsm_?1[02]\d\b|blackwell",
    # Fermi and older: no driver after 390 supports them (NVIDIA's list of legacy GPUs).
    "gpu_dropped": r"\bgeforce (?:gts? ?)?[2-5]\d0(?![\d ]?ti)\b|\bgt2\d\d\b|\b(?:8|9)[46-8]00 ?gt",
}
_JOINED = ("os", "install_method")  # free text: values from the log are appended to the given values
_LOST = ("library_lost", "import_library", "windows_dll_lost")
_SOURCE_LINE = re.compile(r"\b(\w+\.cc):(\d+)\]")


@dataclass(frozen=True)
class Context:
    """What is known about the machine, by key; empty if nothing was given."""

    values: Mapping[str, str]
    words: frozenset[str] = frozenset()  # words derived from the log itself
    stated: frozenset[str] = frozenset()  # keys whose value a person states, and no program printed
    lost: tuple[str, ...] = ()  # files of CUDA that could not be loaded
    opened: tuple[str, ...] = ()  # files of CUDA that were loaded

    def knows(self, word: str) -> bool:
        """Whether a word is known to be true: one of those above, `gpu`, `no_toolkit`, or a comparison such as
        `tensorflow>=2.11`; a leading ! negates it.
        """
        if word.startswith("!"):
            return not self.knows(word[1:])
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

    def learning(self, found: Mapping[str, Found], knowledge: Knowledge) -> Context:
        """Return this context with what the log reports about the machine added; given values take precedence."""
        values = dict(self.values)
        for hit in sorted((hit for each in found.values() for hit in each.hits), key=lambda hit: hit.line):
            extracted = {key: value.strip().rstrip(".") for key, value in hit.groups.items() if key in KEYS}
            release = _SOURCE_LINE.search(hit.text)
            if release and (row := knowledge.log_releases.get((release[1], int(release[2])))):
                extracted["tensorflow"] = row.tensorflow
            for key, value in extracted.items():
                said = self.values.get(key, "")
                values[key] = f"{said}; {value}" if said and key in _JOINED else values.get(key) or value
        words = {name.removeprefix("says_") for name in found if name.startswith("says_")}
        lost, opened = _files(found, _LOST), _files(found, ("opened",))
        return Context(values, frozenset(words), frozenset(self.values), lost, opened)

    def hearing(self, values: Mapping[str, str]) -> Context:
        """Return this context with what the author of the text states; all other values take precedence."""
        known = dict(self.values)
        for key, value in values.items():
            said = known.get(key, "")
            known[key] = f"{said}; {value}" if said and key in _JOINED else said or value
        stated = {key for key in values if key not in self.values}
        return replace(self, values=known, stated=self.stated | stated)

    @property
    def platform(self) -> str:
        """The system as the tables of releases name it: "linux", "windows", "macos"; empty if it is unknown.

        It is the one that TensorFlow runs on: a container on Windows or macOS runs Linux.
        """
        if self.knows("container"):
            return "linux"
        if self.knows("windows"):
            return "windows"
        if self.knows("macos"):
            return "macos"
        return "linux" if self._says("linux") or self.knows("wsl") else ""

    def _says(self, word: str) -> bool:
        if word in self.words:
            return True
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


def _files(found: Mapping[str, Found], names: Iterable[str]) -> tuple[str, ...]:
    hits = (hit for name in names if name in found for hit in found[name].hits)
    return tuple(dict.fromkeys(hit.groups["library"] for hit in hits if "library" in hit.groups))


def _numbers(text: str) -> list[int]:
    """Return the first version in a text; "1.x" is 1."""
    found = re.search(r"\d+(?:\.\d+)*", text)
    return [int(part) for part in found.group().split(".")] if found else []
