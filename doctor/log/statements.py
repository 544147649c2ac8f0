"""Read the text of a ticket: the versions and the system that its author states, and the symptoms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tfgpu_doctor.knowledge.schema import LogSymptom
from tfgpu_doctor.log.driver_cuda import of_toolkit
from tfgpu_doctor.log.environment import kinds_of_program, read_listed
from tfgpu_doctor.log.lines import split_lines
from tfgpu_doctor.log.signatures import Hit

_V = r"v?(\d{1,2}\.(?:\d{1,2}|x)(?:\.\d+)*(?:\.?(?:rc|dev|post)\d+)?)"
_V_TENSORFLOW = _V.replace(r"\d{1,2}\.", r"\d\.", 1)  # 22.03 is an image of NVIDIA's, of March 2022
# A line of a form: "- **CUDA/cuDNN version**: 10.0 / 7.6", "GPU model and memory: GTX 1080".
# Spaces and blank lines are bounded: an unbounded run of them is tried again at each of its lines. A value below a name
# is no item and no other field, and is read again as a line of its own.
_FORM = re.compile(
    r"^[ \t>*#|-]{0,12}(?P<name>[A-Za-z][\w /,.()?&-]{1,70}?)\**[ \t]{0,12}"
    r"(?P<mark>:|=|\||\n{1,3}(?![ \t]{0,12}(?:[*#|>-]|[\w /,.()?&-]{1,70}:)))"
    r"(?=[ \t]{0,12}\**[ \t]{0,12}(?P<value>\S.{0,150})$)",
    re.MULTILINE,
)
_FIELDS = (
    ("cuda_cudnn", re.compile(r"cuda.{0,12}cudnn", re.IGNORECASE)),
    ("tensorflow", re.compile(r"^(?:tensor ?flow|tf)(?:[- ]gpu)?(?: version.*)?$|tensor ?flow version", re.IGNORECASE)),
    ("python", re.compile(r"^python(?: version)?$|^python version", re.IGNORECASE)),
    ("cudnn", re.compile(r"^cudnn(?:[ -]?(?:version|sdk))*$", re.IGNORECASE)),
    ("cuda", re.compile(r"^cuda(?:[ -]?(?:version|toolkit|sdk|runtime))*$", re.IGNORECASE)),
    ("driver", re.compile(r"driver", re.IGNORECASE)),
    (
        "gpu",
        re.compile(
            r"^(?:nvidia )?gpu(?: model| card|s)?\b(?!.*(?:support|enabled|util|available))|graphics? card",
            re.IGNORECASE,
        ),
    ),
    ("os", re.compile(r"^(?:os|operating system|platform|system)\b(?! information)", re.IGNORECASE)),
    ("install_method", re.compile(r"^(?:tensorflow )?install(?:ed|ation)?\b|^installed using", re.IGNORECASE)),
)
# A name above its value is one of a form, or the title of a ticket: "GPU not detected".
_MOST_WORDS = 4
_COMPLAINT = re.compile(
    r"\b(?:not|no|error|issue|problem|fail\w*|slow\w*|crash\w*|fr[eo]ez\w*|hang\w*|usage|works?|working|detect\w*)\b|n't\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"\b[A-Za-z_]\w*(?:\.\w+)+\(|\bos\.environ\b|^\[|^\w+\(['\"]")  # a value of a program's variable
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
_OF_TENSORFLOW = re.compile(r"(?<![\d.])\d(?:\.\d+)*(?!\d)")
_IS = r"(?:\s*(?:version|ver\.?|v|is|release|toolkit|sdk|to|with|=+|:|-|_|/))*"
_DASH = r"[-\u2013](?=\s)"  # "TensorFlow - 2.3.0"
_NOT_AFTER_CUDA = r"(?<!cuda/)(?<!cuda /)"  # a form's "CUDA/cuDNN version: 10.1" begins with CUDA's
_PROSE = tuple(
    (key, re.compile(pattern, re.IGNORECASE))
    for key, pattern in (
        (
            "tensorflow",
            r"\b(?:tensorflow|tf)(?:[-_ ]?(?:gpu|cpu|intel|macos))?(?:\[[\w,-]+\])?"
            rf"(?:\s+(?:version|ver\.?|v|is|release|to|with))*\s*(?:[=~<>]{{1,2}}|:|@|{_DASH})?\s*[\"'(]?{_V_TENSORFLOW}"
            r"(?![\w.]*\.(?:so|dll))",
        ),
        (
            "python",
            rf"\bpython(?:\s+(?:version|ver\.?|v|is))*\s*(?:[=~<>]{{1,2}}|:|{_DASH})?\s*[\"'(]?v?([23]\.\d{{1,2}}(?:\.\d+)?)\b",
        ),
        ("python", r"[/\\]python([23]\.\d{1,2})[/\\]|\\Python([23]\d{1,2})\\|-cp(3\d{1,2})-"),
        ("cudnn", rf"{_NOT_AFTER_CUDA}\bcudnn{_IS}\s*\(?{_V}"),
        ("cudnn", rf"{_NOT_AFTER_CUDA}\bcudnn(?:\s*(?:version|v|=+|:|-))*\s*(\d)\b(?![.\d])"),
        ("cuda", rf"\bcuda(?:[- ]?toolkit)?{_IS}\s*\(?{_V}(?!\.so)"),
        (
            "cuda",
            r"\bcuda(?:[- ]?toolkit)?(?:\s*(?:version|v|toolkit|=+|:|-))*\s*(\d{1,2})\b(?![.\d])"
            r"(?!\s*(?:gpus?|devices?|cores?))",
        ),
        ("cuda", r"Cuda compilation tools, release (\d+\.\d+)"),
        (
            "driver",
            rf"\bdriver(?:\s*(?:version|ver\.?|v|is|:|=+|{_DASH}))*\s*\(?(\d{{3}}\.\d{{2,3}}(?:\.\d{{2,3}})?)\b",
        ),
        ("driver", r"\bnvidia-(?:driver-)?(\d{3})\b(?!\.)"),
    )
)
# Programs of Windows, where no other system is named.
_WINDOWS_PROGRAM = re.compile(
    r"\bvisual studio(?! code)\b|\bvs ?20[12]\d\b|\bmsvc\b|\bcmd\.exe\b|\bpowershell\b|^PS [A-Z]:\\",
    re.IGNORECASE | re.MULTILINE,
)
_OF_SYSTEM = (
    r"(?:[ -]?(?:x|linux|server|desktop|lts|big sur|(?:high )?sierra|[a-z]{5,8}(?= \d)|\d{1,2}(?:\.\d{1,2}){0,2})\b)*"
)
_OS = re.compile(
    r"\bwsl ?[12]?\b|\bwindows(?: (?:server )?(?:\d+|xp|vista|subsystem)|\b)|\bwin(?:dows)?(?:10|11|7|8)\b|\bwin-64\b|\bwin32\b"
    rf"|\b[CD]:\\\w+|\b(?:mac ?os|os ?x|darwin)\b{_OF_SYSTEM}|\bmacbook\b|\blinux\b|/home/\w+|/usr/(?:local|lib)"
    r"|\bapple (?:silicon|m[1-9])\b|(?<![:\w])/Users/\w+"
    r"|\b(?:ubuntu|debian|centos|fedora|red ?hat|rhel|arch linux|manjaro|gentoo|linux mint|pop!?_os|opensuse|rocky|alma"
    rf"|amazon linux)\b{_OF_SYSTEM}",
    re.IGNORECASE,
)
_METHODS = re.compile(
    r"\b(?:(?:in|inside|using|with|via|from) (?:a |the |my )?docker"
    r"|docker (?:run|container|image|compose|exec|build|pull)|dockerfile|nvidia-docker2?|podman|tensorflow/tensorflow:"
    r"|kubernetes|k8s|kubectl|kubeflow|singularity|apptainer|nvcr\.io|slurm|sbatch|srun|lsf|pbs"
    r"|mini?conda|anaconda|conda|mamba|pip3?|poetry|virtualenv|colab|kaggle|sagemaker"
    r"|jetson|jetpack|(?:nvidia|orin) nano|nano (?:[248] ?gb|dev\w*|board|super)"
    r"|jtop|dgx spark|gb10|gb200|gh200|xavier|orin|aarch64|arm64|raspberry"
    r"|snap|nix(?:os)?|pycharm|jupyter|spyder|vs ?code|rstudio|reticulate"
    r"|bumblebee|optirun|optimus|selinux|mig|laptop|pytorch|torch|bazel)\b",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"(?:\bnot|n't|\bno|\bwithout|\bnever|\boutside(?: of)?)(?: (?:use|using|a|any|the))? $", re.IGNORECASE
)
# Lines of programs: dated messages, tables, trees of `key : value`, XML, tracebacks, pip's conflicts, the code in a notebook;
# no statements of a person.
_BELONGS_TO_PROGRAM = re.compile(
    r"^\s*(?:\[?\d{4}-\d\d-\d\d[ T]|[IWEF]\d{4} |\*{0,2}\[\s*\d+\.\d+\]|\||\+[-=]|</?\w|File \"|at \S+ \(|Epoch \d+/|\d+/\d+ \["
    r"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL):[\w.]+:|Instructions for updating:|The TensorFlow contrib module|"
    r"Please use [`'\"]?(?:tf|keras|layer)\.|(?:print|raise \w+|(?:logging|logger|log|warnings)\.\w+)\()"
    r"|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d\b|(?:Total|Free) memory: [\d.]+ ?[KMG]i?B|totalMemory: "
    r"|[^\n]{0,80}?\w\.(?:cc|cpp|cu):\d+[\])]|[^\n]{0,120}?\S {2,}: |[^\n]{0,120}?\S {4,}\S"
    r"|[^\n]{0,60}?\d%\||NVRM(?: version)?:|GCC version: |\bkern +:"
    r"|[^\n]{0,120}?\bkernel: [^\n]{0,30}?NVRM:|ERROR: pip's |[\w.-]{1,80} [\w.+-]{1,40} requires \S[^\n]{0,200}?, but you have "
    r"|\s{2,}\"[^\n]*\",?\s*$"
    r"|\s{4,}[A-Z][^\n:]{1,60} : (?:(?:Not )?Active|Enabled|Disabled)\s*$"  # a row of `nvidia-smi -q`
)
# A row of a table in Markdown: a space before each cell, and no more than one between its words. nvidia-smi has more.
_ROW_OF_PERSON = re.compile(r"\s{0,3}\|(?: [^\s|]{1,80}(?: [^\s|]{1,80}){0,20} {0,40}\|){2,20}\s*")
_TEMPLATE = re.compile(
    r"\((?:e\.?g|i\.?e|for example|as opposed|use command|if |windows, ?osx|os, |optional|please|source or binary)[^)]{0,150}\)"
    r"|<!--.{0,400}?-->",
    re.IGNORECASE,
)
# Fields without a value: a heading and what GitHub writes below it; the version of a compiler that was not used.
_NO_ANSWER = re.compile(r"[ \t*`_]*(?:no response|n/?a|none|not applicable|unknown)[ \t*`_.]*", re.IGNORECASE)
_HEADING = re.compile(r"#{1,6} \S")
_EMPTY = re.compile(r"[ \t>*#|-]{0,12}(?:\w+[ /]){1,4}version[ \t*]*:[ \t*]*(?:none|n/?a|no)?[ \t*.]*", re.IGNORECASE)
_UNTICKED = re.compile(r"\s*(?:[-*] )?\[ ?\] ")
_FIELD = re.compile(r"gpu|cuda|cudnn|nvidia|tensorflow|keras|\btf\b|\btf ?\d|rtx|gtx", re.IGNORECASE)
_PERSON = re.compile(
    r"\b(?:I|I'm|I've|I'd|my|we|our|me|anyone|someone|hello|hi|hey|please|thanks|thank you|how|why|what|could you|is there"
    r"|tried|trying|wondering|it seems|doesn't|isn't|don't|can't|won't|couldn't|problem|issue|after|when|same)\b"
    r"|\?[^\S\n]*$|^[ \t#*-]*(?:system information|describe the|steps to reproduce|expected|current behaviou?r|environment)\b"
    r"|[\u4e00-\u9fff]",
    re.MULTILINE | re.IGNORECASE,
)
_TITLE = re.compile(r"\s*[^\W_]\S*(?: \S+)+\n\s*\n")  # the first line of an issue
_FEW_LINES = 6  # a title, a question
_LINES_FOR_ONE = 30  # a long text of a person has more of these words
_MOST_LINES = 4000
_LONGEST = 2000


@dataclass(frozen=True)
class Statements:
    """The values that a text states, by key of --given, and its symptoms with the lines that show them."""

    values: dict[str, str]
    symptoms: dict[str, list[Hit]]


@dataclass
class _Paragraph:
    text: str
    starts: list[tuple[int, int]]  # of its lines: the offset in the text, and the number

    def line_at(self, offset: int) -> tuple[int, int]:
        """Where in the text the line with that place begins, and the line's number."""
        return next(start for start in reversed(self.starts) if start[0] <= offset)


def read_statements(texts: Iterable[tuple[int, str]], symptoms: Sequence[LogSymptom]) -> Statements:
    """Read the kept parts of a log, each with the number of its first line."""
    values: dict[str, str] = {}
    found: dict[str, list[Hit]] = {}
    texts = list(texts)
    kinds = kinds_of_program("\n".join(text for _, text in texts))
    if not is_written_by_person([text for _, text in texts]):
        return Statements({"install_method": ", ".join(kinds)} if kinds else {}, {})
    patterns = [(row.name, re.compile(row.pattern, re.IGNORECASE)) for row in symptoms]
    for first, text in texts:
        lines = split_lines(text)[:_MOST_LINES]
        prose = _without_empty_fields("" if is_of_program(line) else _without_template(line) for line in lines)
        whole = re.sub(r"\n(?:[ \t]*\n){3,}", "\n\n\n", "\n".join(line[:_LONGEST] for line in prose))
        listed = read_listed(text)  # what a program prints is surer than a title
        for key, value in (*_read_form(whole), *listed, *_read_prose(whole), *_read_system(whole)):
            values.setdefault(key, value)
        for paragraph in _paragraphs(prose, first):
            for name, pattern in patterns:
                if match := pattern.search(paragraph.text):
                    begin, line = paragraph.line_at(match.start())
                    hit = Hit(line, _shown(paragraph.text[begin:], match.start() - begin), {})
                    found.setdefault(name, []).append(hit)
    if kinds:
        values["install_method"] = ", ".join(filter(None, (values.get("install_method", ""), *kinds)))
    return Statements(values, found)


def is_written_by_person(texts: Sequence[str]) -> bool:
    """Whether somebody describes a problem of this field; the output of programs alone does not complain."""
    whole = "\n".join(line for text in texts for line in split_lines(text) if not is_of_program(line))
    lines = whole.count("\n")
    said = _TITLE.match(whole) or lines < _FEW_LINES or len(_PERSON.findall(whole)) > lines // _LINES_FOR_ONE
    return bool(said and _FIELD.search(whole))


def is_of_program(line: str) -> bool:
    """Whether a program printed this line of a ticket."""
    return _BELONGS_TO_PROGRAM.match(line) is not None and not _ROW_OF_PERSON.fullmatch(line)


def _without_template(line: str) -> str:
    """Remove the words of a form's template: examples in parentheses, comments, boxes that are not ticked."""
    if _UNTICKED.match(line):
        return ""
    said = _TEMPLATE.sub(" ", line)
    return "" if _EMPTY.fullmatch(said) else said


def _without_empty_fields(lines: Iterable[str]) -> list[str]:
    """Remove the headings of a form that have no answer below them, and GitHub's words for that."""
    found = list(lines)
    heading = -1  # the place of a heading without text below it
    for place, line in enumerate(found):
        if _HEADING.match(line):
            heading = place
        elif _NO_ANSWER.fullmatch(line):
            found[place] = ""
            if heading >= 0:
                found[heading] = ""
        if line.strip() and heading != place:
            heading = -1
    return found


def _paragraphs(lines: Sequence[str], first: int) -> Iterator[_Paragraph]:
    """Yield the paragraphs of lines, of which the first has that number: sentences go on in the next line."""
    found: _Paragraph | None = None
    for number, line in enumerate((*lines, ""), first):
        plain = line.strip()
        if found and plain and plain[0].islower() and len(found.text) < _LONGEST:
            found.starts.append((len(found.text) + 1, number))
            found.text = f"{found.text} {plain[:_LONGEST]}"
            continue
        if found:
            yield found
        found = _Paragraph(plain[:_LONGEST], [(0, number)]) if plain else None


def _read_form(text: str) -> Iterable[tuple[str, str]]:
    for match in _FORM.finditer(text):
        name = match["name"].strip()
        key = next((key for key, pattern in _FIELDS if pattern.search(name)), "")
        value = match["value"].removeprefix("b'").strip(" *`\"'|")
        if match["mark"].startswith("\n") and (len(name.split()) > _MOST_WORDS or _COMPLAINT.search(name)):
            continue
        if key == "cuda_cudnn":
            yield from _split_cuda(value)
        elif key in ("tensorflow", "python", "cudnn", "cuda", "driver"):
            matches = (_OF_TENSORFLOW if key == "tensorflow" else _NUMBERS).finditer(value)
            if version := next(of_toolkit(value, matches) if key == "cuda" else matches, None):
                yield key, version.group()
        elif key and _is_answer(name, value):
            yield key, value


def _is_answer(name: str, value: str) -> bool:
    """Whether a value is in words, and neither code nor the rest of a title such as "GPU hangs: kernel warning"."""
    in_words = re.search(r"[A-Za-z]{2}", value) and not _NO_ANSWER.fullmatch(value)
    return bool(in_words and not _CODE.search(value) and not _COMPLAINT.search(name))


def _split_cuda(value: str) -> Iterable[tuple[str, str]]:
    every = list(_NUMBERS.finditer(value))
    versions = [match.group() for match in of_toolkit(value, every)]
    if len(versions) < len(every) and len(versions) < 2:  # of the driver and of one of the two
        return
    if versions:
        yield "cuda", versions[0]
    if len(versions) > 1:
        yield "cudnn", versions[1]


def _read_prose(text: str) -> Iterable[tuple[str, str]]:
    for key, pattern in _PROSE:
        matches = pattern.finditer(text)
        for match in of_toolkit(text, matches) if key == "cuda" else matches:
            value = next(each for each in match.groups() if each)
            if key == "python" and "." not in value:
                value = f"{value[0]}.{value[1:]}"
            yield key, value


def _read_system(text: str) -> Iterable[tuple[str, str]]:
    if names := dict.fromkeys(match.group().strip().lower() for match in _OS.finditer(text)):
        yield "os", ", ".join(_clear(names))
    elif _WINDOWS_PROGRAM.search(text):
        yield "os", "windows"
    methods = (
        match
        for match in _METHODS.finditer(text)
        if not _NEGATED.search(text, max(0, match.start() - 20), match.start())
    )
    if names := dict.fromkeys(match.group().lower() for match in methods):
        yield "install_method", ", ".join(names)


def _clear(names: Iterable[str]) -> list[str]:
    """Replace paths by the system that they belong to."""
    return list(dict.fromkeys(map(_system_of, names)))[:6]


def _system_of(name: str) -> str:
    if ":\\" in name:
        return "windows"
    if name.startswith(("/users/", "apple ")):
        return "macos"
    return "linux" if name.startswith("/") else name


def _shown(text: str, place: int) -> str:
    """Return the part of a paragraph around a match."""
    start = max(0, place - 100) if place > 160 else 0
    part = "".join(char if char.isprintable() else " " for char in text[start : start + 200]).strip()
    return ("... " if start else "") + part + (" ..." if start + 200 < len(text) else "")
