"""Scrub strings: remove what identifies their owner, and keep only what is known to be harmless.

A text is searched from the most to the least certain patterns: multi-line keys, secrets identified by the text before
them, addresses, paths; the rest is judged word by word, and a word that is on no list is replaced.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable

from tfgpu_doctor.ticket.identity import FIRST_UID, NOBODY, Identity
from tfgpu_doctor.ticket.named import NAMED, NO_HOST, PRODUCT
from tfgpu_doctor.ticket.paths import PathScrubber
from tfgpu_doctor.ticket.patterns import BLOB, NAMES, SAYS, SECRETS, UUIDS, Pattern, find_blocks
from tfgpu_doctor.ticket.personal_numbers import NUMBERS
from tfgpu_doctor.ticket.placeholders import PLACEHOLDER, Placeholders
from tfgpu_doctor.ticket.positions import ONE_HOST, POSITIONS, PUBLIC_NAMESPACES, SYSTEM_ACCOUNTS, SYSTEM_GROUPS
from tfgpu_doctor.ticket.shapes import is_like_an_ip, is_plain, is_version, shortened
from tfgpu_doctor.ticket.spans import Spans
from tfgpu_doctor.ticket.vocabulary import OF_EVERYBODY, Vocabulary
from tfgpu_doctor.ticket.wordlike import SYMBOL, Words

_KEPT = re.compile(
    r"^[IWEF]\d{4} \d\d:\d\d:\d{10}\.\d{6} +\d{1,7} |"  # the prefix of absl's messages, which contains seconds since 1970
    r"\[ *\d{1,6}\.\d{6}\]|"  # the prefix of the kernel's messages
    r"(?<![\w/])(?:/job:localhost/replica:\d/task:\d)?/(?:physical_)?device:[GCTX]PU:\d{1,2}\b|(?<![\w/])/[GC]PU:\d{1,2}\b|"
    r"\bchunk \d{1,6}, word \d{1,7}: wrote 0x[0-9a-f]{16}, read 0x[0-9a-f]{16}\b|"
    r"(?<![\w.])\d{8,13}(?= (?:bytes|B)\b)|(?<=\(rounded to )\d{8,13}(?=\))|"
    r"\bexit(?:ed)?(?: with)? (?:code|status)[ :=]{1,3}-?\d{8,10}\b|"  # as Windows writes them
    r"\b(?:\w{0,40}(?:memory|bytes|limit|size)(?: reported|_)?|(?:max_?)?in_?use|max_?alloc_?size|(?:peak_?)?reserved|"
    r"largest_?free_?block)[\"']?[:=] {0,20}\d{8,13}\b|"  # of allocators
    r"\b(?-i:(?:CU[A-Z]{2,8}|NVML|NVRTC|NVJPEG|NPP)_(?:ERROR|STATUS)_[A-Z][A-Z0-9_]{2,80})\b|"
    r"(?<![\w.@/-])(?:(?:tf|scipy|skimage)\.io|google\.protobuf\.internal|"  # modules; any other is a host
    r"tensorflow\.python\.(?:lib|keras|framework|platform|ops|eager|core|tools)\.(?:io|internal))(?![\w.-]|:\d|/)|"
    r"(?<![\w.@/-])(?:tensorflow(?:-(?:base|gpu|cpu|estimator))?|keras|jaxlib|cudatoolkit|cudnn|nccl)-\d{1,3}(?:\.\d{1,5}){0,3}-"
    r"(?:(?:cuda|cpu|gpu|mkl|eigen|py|np)_?\d{0,4}_?){0,4}h[0-9a-f]{7}_\d{1,4}(?![\w.-])|"  # of conda
    r"\bMicrosoft@Microsoft\.com\b|"  # who built the kernel of WSL 1
    r"\bVBIOS(?: version)?[ :=]{1,40}[0-9a-f]{2}(?:\.[0-9a-f]{2}){4}(?![\w.])|"
    r"\b(?:Ch|intr|ctxId) (?:0x)?[0-9a-f]{8}\b|"  # of Xids
    r"(?<![\w:.])10de:[0-9a-f]{4}(?![\w:.-])|"
    r"(?:(?<=PCI:)|(?<![\w:.]))(?:0000)?[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?(?![\w.-]|:\w)|"
    r"(?<![\w:.])(?:19|20)\d\d-[01]\d-[0-3]\d[T ][0-2]\d:[0-5]\d:[0-6]\d(?:[.,]\d{1,6})?Z?(?![\w.-])|"
    r"(?<![\w:.-])[0-2]?\d:[0-5]\d:[0-6]\d(?:\.\d{1,6})?(?![\w:-])",
    re.MULTILINE | re.IGNORECASE,
)
_GPU = re.compile(
    r"\b(?:NVIDIA|Tesla|Quadro|GeForce|GRID|TITAN|RTX|GTX|NVS|CMP)(?: (?:Tesla|Quadro|GeForce|GRID|TITAN|RTX|GTX|PRO))? "
    r"(?:[A-Z]{0,2}\d{1,4}[A-Z]{0,3}m?(?:-\d{1,2}[A-Z]{1,2})?|Xp|V)(?![\w.@-])"
)
_SYMBOL_OF_KERNEL = re.compile(
    r"\b(?:Unknown symbol|disagrees about version of symbol) [a-z_]\w{2,80}(?= \(err -?\d+\)|\s*\Z)"
)
_DOTTED = re.compile(r"(?<![\w.])(\d{1,3}(?:\.\d{1,3}){3})(?![\w]|\.\d)(/\d{1,2}(?!\w))?")
_OF_PACKAGE = re.compile(r"(nvidia-[a-z0-9-]+)(?:\[[a-z,-]+\])?[ (]*(?:[<>=~!]=? ?[\d.]*, ?)?(?:[<>=~!]=? ?)?\Z")
_BOUND = re.compile(r"[<>~!]=\s?\Z")  # of a version; nobody compares addresses
_PRIVATE = re.compile(r"10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.")  # RFC 1918
_OF_PRODUCT = re.compile(
    r"(?:(?<![a-z0-9_])(?:lib)?(?:cuda(?:toolkit|rt)?|cudnn|tensorrt|nvinfer|cublas(?:lt)?|cufft|curand|cusolver|cusparse|cupti|nccl|"
    r"nvjpeg|nvjitlink|nvrtc|npp|cutensor)(?:[-_]?(?:cu|cuda-?|dev|libs|version|bindings|lean|dispatch)?\d{0,2}){0,3}"
    r"(?:[\s:=\"'(-]{1,3}(?:toolkit|runtime|library|driver|is|found|loaded|release|v))*|(?<![a-z0-9])version(?:\s+is)?|"
    r"compiled (?:with|against))[\s:=<>~!\"'(-]{0,4}v?\Z",
    re.IGNORECASE,
)
_QUOTED_PATH = re.compile(r"\"((?:[A-Za-z]:\\|~?/)[^\"\n]{1,1000})\"|'((?:[A-Za-z]:\\|~?/)[^'\n]{1,1000})'")
_PATH = re.compile(
    r"(?<![\w<>/.$~\\-])(?:\$\w+|\$\{\w+\}|~[\w.-]*|\.{1,2})?/(?:[^\s\0\"'`,;:()\[\]{}<>|=]|<[a-z]+-\d{1,5}>)+|"
    r"(?<![\w<>/.$~])(?:[A-Za-z]:)?\\(?:[^\s\0\"'`,;:()\[\]{}<>|=]|<[a-z]+-\d{1,5}>)+"
)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([\w.-]+)(?::\d{2,5})?(/[\w./-]*)?(?:#[\w-]*)?")
_SCHEMES = frozenset(
    ("http", "https", "ftp", "ssh", "git", "file", "s3", "gs", "tcp", "grpc", "postgres", "postgresql", "mysql", "mongodb",
     "redis", "amqp")
)  # fmt: skip
_NOWHERE = frozenset({"127.0.0.1", "0.0.0.0", "255.255.255.255"})  # noqa: S104 - nothing is bound
# Names in the place of a host that are none: what Kubernetes calls the GPUs of a node, what stands for no host, and
# registries that everybody uses.
_NO_HOSTS = frozenset(
    ("localhost", "nvidia.com", "null", "none", "n", "a", "any", "all", "unknown", "assigned", "host", "node", "server",
     "peer", "remote", "client", "worker", "daemon", "device", "gpu", "cpu", "it", "the", "this", "kernel", "database",
     "nvcr.io", "docker.io", "quay.io", "gcr.io", "ghcr.io", "registry.k8s.io",
     "info", "warn", "warning", "error", "debug", "fatal", "critical", "notice", "trace")
)  # fmt: skip
_PUBLIC = {"group": SYSTEM_GROUPS, "name": PUBLIC_NAMESPACES}
_NOTHING = re.compile(r"(?:None|null|true|false)[)}\]]*", re.IGNORECASE)
_END = re.compile(r"[.!?]+\Z")


class Scrubber:
    """The replacements of one ticket: a value always gets the same placeholder."""

    def __init__(self, vocabulary: Vocabulary, identity: Identity, uuids: Iterable[str] = ()) -> None:
        self.placeholders = Placeholders()
        self._vocabulary = vocabulary
        self._words = Words(vocabulary, identity, self.placeholders, uuids)
        self._paths = PathScrubber(vocabulary, self.placeholders, self._words)

    def text(self, text: str, *, models: bool = False) -> str:
        """Scrub free text. With `models`, one word of letters and digits may be kept, as in names of CPUs."""
        spans = Spans(text)
        for start, end in find_blocks(text):
            spans.claim(start, end, self._of("key", text[start:end]))
        for found in _KEPT.finditer(text):
            spans.claim(*found.span(), found[0])
        self._claim(SECRETS, text, spans)
        self._claim_paths(text, spans)
        for found in PLACEHOLDER.finditer(text):
            spans.claim(*found.span(), found[0])
        for found in UUIDS.finditer(text):
            spans.claim(*found.span(), functools.partial(self._words.uuid, found))
        for found in SYMBOL.finditer(text):
            if self._words.is_symbol(found[0]):
                spans.claim(*found.span(), found[0])
        self._claim_addresses(text, spans)
        self._claim(NUMBERS, text, spans)
        self._claim(POSITIONS, text, spans)
        self._claim(NAMED, text, spans, self._is_of_a_product)
        self._claim(NAMES, text, spans)
        for found in BLOB.finditer(text):
            if self._words.is_blob(found[0]):
                spans.claim(*found.span(), functools.partial(self._of, "blob", found[0]))
        for kept in (_GPU, _SYMBOL_OF_KERNEL):
            for found in kept.finditer(text):
                spans.claim(*found.span(), found[0])
        return spans.filled(self._words.scrub(models))

    def tells(self, text: str) -> bool:
        """Whether a scrubbed text has the name of a user or a host that was revealed after it."""
        return self._words.tells(text)

    def path(self, path: str) -> str:
        """Scrub a whole path, which can contain spaces; anything else is scrubbed as text."""
        if "\n" in path or not re.match(r"[/~.$]|[A-Za-z]:[\\/]|[\w.+-]+\Z", path):
            return self.text(path)
        return self._paths.path(path)

    def paths(self, listed: str) -> str:
        """Scrub colon-separated paths."""
        return ":".join(self.path(each) for each in listed.split(":")) if "://" not in listed else self.text(listed)

    def version(self, version: str, of: str = "") -> str:
        """Scrub a version. One that could be an IP address is kept if a table contains it, or if it is `of` a file or
        package of NVIDIA's; otherwise only its beginning is kept.
        """
        if is_like_an_ip(version):
            known = version in self._vocabulary.versions or self._is_nvidias(of)
            return version if known else self._cut(version)
        return version if is_version(version) else self.text(version)

    def release(self, release: str) -> str:
        """Scrub a kernel release: keep its version, and the suffix if it is known."""
        return self._paths.part(release) if re.match(r"\d", release) else self.text(release)

    def package(self, name: str) -> str:
        """Scrub the name of a distribution: keep it if the distribution is public."""
        if self._vocabulary.has_package(name) or PLACEHOLDER.fullmatch(name):
            return name
        return self._of("package", name)

    def program(self, name: str) -> str:
        """Scrub the name of a process: keep it if the program is known."""
        folder, slash, last = name.rpartition("/")
        if not self._is_program(last):
            last = last if PLACEHOLDER.fullmatch(last) else self._of("process", last)
        return f"{self.path(folder) if folder else ''}{slash}{last}"

    def user(self, name: str) -> str:
        """Scrub the name of an account."""
        return name if name in ("", "root") or PLACEHOLDER.fullmatch(name) else self._of("user", name)

    def variable(self, name: str) -> str:
        """Scrub the name of a variable: keep it if it is on a list."""
        if name in self._vocabulary.variables or PLACEHOLDER.fullmatch(name):
            return name
        known = re.fullmatch(r"(?:TF|TF2|XLA|CUDA|KMP|OMP|NCCL|NVIDIA)(?:_[A-Z0-9]+)+", name)
        if known and all(self._vocabulary.has_word(part) or part == "TF2" for part in name.split("_")):
            return name
        return self._of("variable", name)

    def always(self, kind: str) -> Callable[[str], str]:
        """Return a function that replaces every value by a placeholder of this kind."""
        return lambda value: value if not value or PLACEHOLDER.fullmatch(value) else self._of(kind, value)

    def _of(self, kind: str, value: str) -> str:
        return self.placeholders.of(kind, value)

    def _is_program(self, name: str) -> bool:
        return name in self._vocabulary.programs or bool(re.fullmatch(r"python\d(?:\.\d{1,2})?", name))

    def _is_nvidias(self, name: str) -> bool:
        """Whether the name is a package of NVIDIA's, or a library: their versions have four numbers."""
        return name.startswith(("nvidia-", "lib")) and self._paths.is_known(name)

    def _cut(self, version: str) -> str:
        self.placeholders.uses["ip"] += 1
        return shortened(version)

    def _claim(
        self, patterns: Iterable[Pattern], text: str, spans: Spans, spared: Callable[[str, str], bool] | None = None
    ) -> None:
        """Claim what the patterns find, except the values that are `spared`: these are judged word by word."""
        small = text.lower()
        for pattern in patterns:
            if pattern.needs and not any(word in small for word in pattern.needs):
                continue
            for found in pattern.expression.finditer(text):
                start, end = found.span(pattern.group)
                values = [(pattern.kind, text[start:end], start)] if start >= 0 else []
                if pattern.kind == "hosts":
                    values = [("host", host[0], start + host.start()) for host in ONE_HOST.finditer(text[start:end])]
                for kind, value, begins in values:
                    if not (spared and spared(kind, value)):
                        self._claim_one(kind, value, begins, spans)

    def _claim_one(self, kind: str, value: str, start: int, spans: Spans) -> None:
        if not value.strip() or PLACEHOLDER.fullmatch(value.strip(" '\"")) or self._is_harmless(kind, value):
            return
        replace = self._url if kind == "url" else functools.partial(self._of, "name" if kind == "group" else kind)
        spans.claim(start, start + len(value), functools.partial(replace, value))

    def _is_harmless(self, kind: str, value: str) -> bool:
        """Whether a value that looks like a personal number or a host is harmless, for example a version or a file name."""
        digits = sum(map(str.isdigit, value))
        if kind == "secret":
            return bool(SAYS.match(value) or _NOTHING.fullmatch(value))
        if kind == "number":
            return is_plain(value) or is_like_an_ip(value) or digits < 9
        if kind == "telephone":
            return digits < 6
        if kind == "id":
            return value.isdecimal() and (int(value) < FIRST_UID or int(value) == NOBODY)
        if kind == "host":
            small = value.lower()
            return small in self._vocabulary.hosts or small in _NO_HOSTS or value.isdecimal() or bool(SAYS.match(value))
        if kind == "user":
            return value.lower() in SYSTEM_ACCOUNTS or (digits < 5 and is_plain(value))
        if kind in _PUBLIC:
            return value.lower() in _PUBLIC[kind]
        return kind == "ip" and value in ("::", "::1")

    def _is_of_a_product(self, kind: str, value: str) -> bool:
        """Whether what stands in the place of a name is public: a product, a package, a program, an owner of repositories."""
        small = value.strip().lower()
        if kind == "host":
            return bool(NO_HOST.fullmatch(small))
        if kind not in ("name", "user", "group"):
            return False
        first, _, more = re.split(r"[^\w/-]", small, maxsplit=1)[0].partition("/")
        return (
            bool(PRODUCT.match(small))
            or first in self._vocabulary.programs
            or self._vocabulary.has_package(first)
            or bool(more and f"github.com/{first}" in self._vocabulary.owners)
        )

    def _claim_addresses(self, text: str, spans: Spans) -> None:
        for found in _DOTTED.finditer(text):
            if not is_like_an_ip(found[1]):
                continue
            known = found[1] in self._vocabulary.versions or found[1] in _NOWHERE
            begins = max(0, found.start() - 60)
            package = _OF_PACKAGE.search(text, begins, found.start())
            known = known or bool(package and self._vocabulary.has_package(package[1]))
            if (known or _OF_PRODUCT.search(text, begins, found.start())) and not found[2]:
                spans.claim(*found.span(), found[0])
            elif _BOUND.search(text, begins, found.start()) and not _PRIVATE.match(found[1]):
                spans.claim(*found.span(1), functools.partial(self._cut, found[1]))
            else:
                spans.claim(*found.span(), functools.partial(self._of, "ip", found[1]))

    def _claim_paths(self, text: str, spans: Spans) -> None:
        for found in _QUOTED_PATH.finditer(text):
            group = 1 if found[1] else 2
            spans.claim(*found.span(group), functools.partial(self._paths.path, found[group]))
        for found in _PATH.finditer(text):
            ending = _END.search(found[0])
            end = found.end() - (len(ending[0]) if ending else 0)
            spans.claim(found.start(), end, functools.partial(self._paths.path, text[found.start() : end]))

    def _url(self, url: str) -> str:
        found = _URL.fullmatch(url)
        if found and self._is_public(found[2].lower(), found[3] or ""):
            return url
        scheme, _, rest = url.partition("://")
        return f"{scheme}://{self._of('url', rest)}" if scheme.lower() in _SCHEMES else self._of("url", url)

    def _is_public(self, host: str, path: str) -> bool:
        """Whether a page is public: the host is, and the owner of the page if everybody may have one there."""
        if host in OF_EVERYBODY and path.strip("/"):
            owner, _, path = path.strip("/").partition("/")
            if f"{host}/{owner}".lower() not in self._vocabulary.owners:
                return False
        return host in self._vocabulary.hosts and self._words.are_known(path)
