"""Patterns that find secrets and names by their context: what follows `password=`, a key between its BEGIN and END marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tfgpu_doctor.ticket.labels import BETWEEN, CERTAIN, COMMANDS, FOREIGN, LABEL, NUMBERED, QUOTE, READS, VALUE

_DONE = "(?:changed|reset|rejected|accepted|provided|given|found|sent|entered|denied|rotated)"
# What a message says of a password without naming it: "sudo: a password is required". "Is changed to" names it.
_STATES = (
    r"(?:required|needed|missing|wrong|incorrect|invalid|empty|expired|too|not|set|unset|correct|never|stored)\b|"
    rf"{_DONE}(?=\s*(?:[.,;)]|$|by\b|from\b|in\b))"
)


@dataclass(frozen=True)
class Pattern:
    """An expression, the group to replace, and the kind of its placeholder.

    A text without any of `needs`, in small letters, cannot match: it is not searched.
    """

    kind: str
    expression: re.Pattern[str]
    group: int = 0
    needs: tuple[str, ...] = ()


def pattern(
    kind: str, expression: str, group: int = 0, flags: int = re.IGNORECASE, needs: tuple[str, ...] = ()
) -> Pattern:
    """Return a pattern for letters of either case."""
    return Pattern(kind, re.compile(expression, flags), group, needs)


# The marks are those of RFC 7468, RFC 4880 and PuTTY; a key that is cut off at the end also matches.
BLOCKS = (
    pattern("key", r"-----BEGIN [A-Z0-9 ]{2,60}-----.*?(?:-----END [A-Z0-9 ]{2,60}-----|\Z)", 0, re.DOTALL),
    pattern("key", r"PuTTY-User-Key-File-.*?(?:Private-MAC: [0-9a-f]+|\Z)", 0, re.DOTALL),
)
# The order matters: the first match claims its span. `SECRETS` are applied before paths, the others after them.
SECRETS = (
    pattern("key", r"\b(?:ssh|ecdsa|sk-ssh)-[\w@.-]+ +AAAA[^\n]*"),
    pattern("key", r"\bAGE-SECRET-KEY-1\w+"),
    pattern("secret", r"\b(?:proxy-)?authorization[\"']?\s*[:=]\s*([^\n]+)", 1),
    pattern("secret", r"\b(?:set-)?cookie[\"']?\s*:\s*([^\n]+)", 1),
    pattern("secret", r"\b(?:bearer|basic|digest)\s+([\w.~+/=-]{8,})", 1),
    pattern("secret", r"\bmachine\s+\S+\s+(login\s+\S+(?:\s+(?:password|account)\s+\S+)*)", 1),
    # A quoted one in a call or a document ends with its quotes; what follows may be evidence.
    pattern("secret", r"(?<![\w.-])(?<!hlo )(?<!compiler )(?<!optimization )(?:[\w.-]{0,60}[_.-])?"
            r"(?:pass(?:word|wort|phrase|wd)?|secret|psk)[\"']?\s*[:=]\s*"
            r"(\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
            r"(?=[)}\]]*(?:,\s*(?:[\"']?[A-Za-z_][\w.-]*[\"']?\s*[:=]|$)|[)}\]]\s*$))", 1, needs=("pass", "secret", "psk")),
    pattern("secret", r"(?<!hlo )(?<!compiler )(?<!optimization )\b"
            r"(?:pass(?:word|wort|phrase|wd)|pass(?!\s*[:=]\s*\d{1,3}(?![\w.]))|secret|ssid|psk)[\"']?"
            rf"\s*(?::|=|\b(?:is|was(?!\s+(?!{_DONE})\w+ed\b))\b(?!\s+(?:{_STATES})))\s*([^\n]+)", 1),
    pattern("secret", r"\bpass(?:word|phrase|code) for [^\n:]{1,100}:[ \t]+"
            r"(?!permission|authentication|incorrect|invalid|command not|denied\s*$)([^\n]+)", 1, needs=("for ",)),
    pattern("secret", rf"(?<!\w){FOREIGN}[\"']?\s*[:=\uff1a]\s*([^\n]+)", 1),
    pattern("url", r"\b[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>`]+"),
    pattern("secret", r"\b(?:auth|Http(?:Basic|Digest|Proxy)Auth|basic_auth|login)\s*[:=]?\s*"
            r"\(\s*([\"'][^\"'\n]{0,100}[\"']\s*,\s*[\"'][^\"'\n]{0,100}[\"'])", 1),
    # "/run/secrets:/data" is a list of folders
    pattern("secret", rf"(?<![\w.-])(?!(?<=/)secrets:/(?!/)){LABEL}(?:{QUOTE}|[\"']\])"
            rf"\s*(?::(?!:)|={{1,2}})\s*({VALUE})", 1),
    pattern("secret", rf"<{CERTAIN}(?:\s[^<>\n]{{0,100}})?>\s*([^<\n]+)", 1),
    pattern("secret", rf"{CERTAIN}{BETWEEN}({VALUE})", 1),
    pattern("secret", r"\b(?:pass(?:word|wort|wd|phrase|code)|kennwort|pwd|pw|storepass|requirepass|"
            r"masterauth)\s+(?:lautet\s+|ist\s+|is\s+)?(?=\S*\d)([^\s\"'&;,]{5,})", 1),
    pattern("secret", r"(?<![\w.-])[a-z0-9]+[_-](?:[a-z0-9]+[_-])*(?:password|passwd|token|secret|key)\s+"
            r"(?!0x)(?=\S*\d)([^\s\"'&;,]{5,})", 1),
    pattern("secret", rf"\b{NUMBERED}(?:\s+to\s+value)?[\"']?[\s:=#]*[\"']?"
            r"((?=[\w-]*\d)\w[\w-]{4,40})(?!\w|\.\d)", 1),
    pattern("secret", r"(?<=[?&])key=([^\s&\"'#]+)", 1),
    pattern("secret", rf"(?:^|(?<=\s))--?{LABEL}\s+({VALUE})", 1),
    *(pattern("secret", rf"\b{command}\b(?:[^\n|;]{{0,200}}?\s)??{option}({VALUE})", 1)
      for command, option in COMMANDS),
    pattern("secret", rf"\b(?:echo|printf)\s+(?:-\w+\s+)*([^|\n]{{1,100}}?)\s*\|\s*{READS}", 1),
    pattern("secret", rf"\b{READS}[^\n|]{{0,60}}?<<<\s*({VALUE})", 1, needs=("<<<",)),
    pattern("ip", r"(?<![^\W_])(?<![:.])(?:(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|"
             r"(?=[0-9a-f:]*::)(?=(?:[0-9a-f]*:){2})[0-9a-f:]*[0-9a-f][0-9a-f:]*(?:\.\d{1,3}){0,3})(?:%\w+)?(?:/\d{1,3})?(?![^\W_]|:)"),
)  # fmt: skip
NAMES = (
    pattern("email", r"(?<![\w.+%-])[\w.+%-]+@[\w-]+(?:\.[\w-]+)+"),
    pattern("email", r"(?<![\w.+-])[\w.+-]+ ?[\[(]at[\])] ?[\w-]+(?:(?: ?[\[(]dot[\])] ?|\.)\w+)+"),
    pattern("id", r"\bS-1-\d+(?:-\d+){2,}\b"),  # of a Windows account
    pattern("mac", r"(?<![^\W_])(?<![:-])[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5,7}(?:(?:[:-][0-9a-f]{2}){12})?(?![^\W_]|[:-])"),
    pattern("mac", r"(?<![\w.])(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}(?![\w.])"),
    pattern("number", r"(?<![\w.:/-])\d{2,6}(?:[ .-]\d{2,6}){2,6}(?![\w.:/-])"),
    pattern("number", r"(?<![\w.:/-])\d{4}(?:,\d{3,4}){2,4}(?![\w.:/-])"),
    pattern("host", r"^(?:<\d+>)?\w{3} +\d+ [\d:]{8} (\S+) \S+:", 1, re.MULTILINE),  # as syslog writes
    pattern("host", r"^\d{4}-\d\d-\d\dT\S+ (\S+) (?:kernel|systemd|nvidia)\S*:", 1, re.MULTILINE),
    pattern("host", r"^(\S+) Secure Boot Module Signature key$", 1, re.MULTILINE),
    pattern("host", r"\bhost(?:name)?[\"']?\s*[:=]\s*[\"']?([\w.-]+)", 1),
    pattern("host", r"\bhost(?:name)? +((?=[\d_.-]*[a-z])[a-z_.-]*\d[\w.-]*)", 1),
    pattern("host", r"(?<![\w.-])(?:ip|ec2|dhcp|host|vm|static)-\d{1,3}(?:-\d{1,3}){3}(?!\w)"),  # with its address
    pattern("host", r"(?<![\w.])(?:[a-z]+-){0,3}(?:node|server|dgx|hgx|worker|login|head|master)-?\d{1,5}(?![\w.])"),
    pattern("user", r"(?:(?<![^\W_])(?:user(?:name)?|(?<!last )login|account)|\b(?:owner|[lu]name|logname))"
            rf"{QUOTE}\s*[:=]\s*{QUOTE}(?!(?:true|false|none|null)(?![\w@$]|[.-]\w))([\w.@$-]+(?:\\{{1,2}}[\w.@$-]+)?)", 1),
    pattern("user", r"(?<![\w.-])([\w.-]+)@[\w-]+(?=[:\s]|$)", 1),
    pattern("host", r"(?<=@)([\w-]+)(?=[:\s]|$)", 1),
    pattern("host", r"(?<![\w.-])(?:[a-z0-9-]+\.)+(?:com|net|org|io|edu|gov|mil|local|internal|intern|lan|corp|home|cloud|"
             r"dev|ai|co|de|fr|uk|eu|ch|at|nl|se|no|jp|cn|in|ru|br|it|es|pl|us|ca|au|arpa)(?::\d{2,5})?(?![\w.-])"),
)  # fmt: skip
# What a program says in the place of a value: a code, or a library that cannot be opened.
SAYS = re.compile(r"[A-Z]{3,}_[A-Z_]{3,}(?=[:,.;)\"']*(?:\s|\Z))|lib[\w+-]+\.so(?:\.\d+)*(?=:?(?:\s|\Z))")
# A line that asks for a secret; the next one answers, unless a program wrote it.
ASKS = re.compile(
    r"\b(?:pass(?:word|phrase|code|wd)|otp|pin|(?:api|secret) key|access token|"
    r"(?:verification|security|one[- ]time|2fa|login) code)\b[^\n:=]{0,100}[:=]\s*(?:[>|][+-]?\s*|\\\s*)?\Z|"
    r"(?:key|token|secret|password)\w{0,20}=\\\s*\Z|"  # goes on in the next line
    r"\bname:\s*[\"']?(?-i:[A-Z0-9_]{0,40}(?:KEY|TOKEN|SECRET|PASSWORD))[\"']?\s*\Z",  # "value:" does
    re.IGNORECASE,
)
# An option in a list of arguments, one a line: its value is the next item.
OPTION = re.compile(
    r"\s*-\s+[\"']?--?[\w-]*(?:password|passwd|passphrase|token|secret|api[-_]?key)[\"']?,?\s*\Z", re.IGNORECASE
)
ITEM = re.compile(r"(\s*-\s+)(?![\"']?--)(\S[^\n]*)")
NO_ANSWER = re.compile(
    r"\s*(?:valueFrom:|- |\d{4}-\d\d-\d\d|[IWEF]\d{4} |\[|<|Traceback|File \"|Sorry,|Last login|"
    r"Permission denied|sudo:|su:|\w+Error\b|[A-Z]{3,}_[A-Z_]{3,}|\S+[$#>] |"
    r"(?:Killed|Aborted|Terminated|Segmentation fault|Bus error|Illegal instruction|"
    r"Floating point exception)(?: \(core dumped\))?\s*\Z|[^\n]{0,60}: "
    r"(?:command not found|No such file or directory)\s*\Z)"
)
LONGEST_ANSWER = 64
# GPU-..., MIG-..., and MIG-GPU-.../1/0 as drivers before 470 write it; CUDA also accepts only the first digits.
UUIDS = re.compile(
    r"\b(MIG-GPU-|GPU-|MIG-|)([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:/\d{1,2}/\d{1,2})?|"
    r"(?<=U-|G-)[0-9a-f][0-9a-f-]{2,40}(?:/\d{1,2}/\d{1,2})?)(?!\w)",
    re.IGNORECASE,
)
BLOB = re.compile(r"[A-Za-z0-9+/_=-]{20,}")


def find_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of multi-line keys."""
    for pattern in BLOCKS:
        for found in pattern.expression.finditer(text):
            yield found.span()
