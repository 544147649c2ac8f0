"""Patterns that find the numbers of jobs, accounts, telephones and one-time codes by the words around them."""

from __future__ import annotations

import re

from tfgpu_doctor.ticket.patterns import Pattern, pattern

_ID = r"\d{3,12}(?:\[\d*\])?(?:[._]\w[\w.-]*)?"  # 4917264, 4917264.0, 4917264_17, 881234[].pbs01
_JOBS = (
    pattern("job", rf"\b\w{{0,40}}job_?-?\s?id[\"']?\s*[:=#]?\s*[\"'<]?({_ID})", 1),
    pattern("job", rf"(?<!per )\bjob(?: allocation)?\b[\"']?\s*[:=#<]?\s*[\"'<]?({_ID})", 1),
    pattern("job", r"(?<![^\W_])job_?(\d{4,12})(?![^\W_])", 1),
    pattern("job", r"(?<!per)[_-]job[\"']?\s*[:=#<]?\s*[\"'<]?(\d{4,12}(?:[._]\d[\w.-]*)?)(?!\w)", 1),  # slurm_job 4917264
    pattern("job", rf"(?<![^\W_])job\s*(?:no\.?|nr\.?|num|number)\s*[:=#]?\s*({_ID})", 1),
    pattern("job", r"(?<![^\W_])jobs\s*[:=#]?\s*(\d{5,12}(?:,\s?\d{5,12})*)(?!\w)", 1),
    pattern("job", rf"\b(?:StepId|ArrayJobId|TaskId)=({_ID})", 1),
    pattern("job", r"\bSTEP (\d{3,12}\.\w+)(?= ON |\b)", 1, 0),
    pattern("job", r"\bslurm[-_](\d{3,12}(?:_\d+)?)(?!\d)", 1),
    pattern("job", rf"\b(?:scancel|bkill|bjobs|bpeek|qdel|qstat|qhold|qalter|seff|condor_rm)\s+(?:-\w+\s+)*({_ID})", 1),
    pattern("job", r"\b(?:sacct|squeue|sstat|sattach|srun|scontrol)\b[^\n]{0,200}?\s"
            r"(?:-j|--jobs?(?:id)?)[ =]?(\d[\w.,]{2,})", 1),
    pattern("job", r"\bsubmitted to cluster (\d+)", 1),
    pattern("job", r"(?<![\w.])(\d{3,12}(?:\[\d*\])?\.(?:pbs|sdb|torque|server|master|head|admin|mgmt)[\w.-]*)", 1),
    pattern("job", r"\bLSB_(?:JOBID|BATCH_JID)=\"?(\d+)", 1),
)  # fmt: skip
_ACCOUNTS = (
    pattern("id", r"\b(?:[aefs]?uid|[aefs]?gid|o[ug]id|login_?uid|(?:user|group)[ _]?id|groups)\b[\"']?"
            r"\s*[:=]?\s*[\"']?(\d{4,10})\b", 1),
    pattern("id", r"(?<=[=,])(\d{4,10})(?=\([^\s()]+\))", 1),  # as `id` prints them: 54321(name)
    pattern("id", r"\b(?:User|Group)Id=[^\s()]+\((\d{4,10})\)", 1),  # as Slurm does: name(54321)
    pattern("id", r"\buid:gid[\"']?\s*[:=]\s*\d+:(\d{4,10})\b", 1),
    pattern("user", r"\buid=\d+\((?!root\))([^\s()]+)\)", 1),
    pattern("name", r"\bgid=\d+\((?!root\))([^\s()]+)\)", 1),
    pattern("id", r"\buser(?:-runtime-dir)?[-@](\d{4,10})(?=\.(?:slice|service)\b)", 1),
    pattern("id", r"\bchown\s+(?:-\w+\s+)*(\d{4,10}(?::\d*)?)", 1),
    pattern("id", r"(?<!\S)(?:-u|--user)[ =](\d{4,10}(?::\d*)?)\b", 1),
    pattern("id", r"\b(?:user|owner|owned by|account)\s+#?(\d{4,10})\b", 1),
)  # fmt: skip
_TELEPHONES = (
    pattern("number", r"(?<![\w.:/+-])\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{1,5}(?:[ ./-]?\d{2,8}){1,5}(?![\w.:/])"),
    pattern("number", r"(?<![\w.])\(\d{3,4}\) ?\d{3,4}[ .-]?\d{3,5}(?![\w.:])"),
    pattern("number", r"(?<![\w.:/-])0[1-9]\d{1,3}[ /-]\d{5,8}(?![\w.:/-])"),
    pattern("telephone", r"\b(?:tel(?:ephone|efon)?|phone|mobile|mobil|cell ?phone|fax|pager|call (?:me |us )?(?:at|on))\b"
            r"[.\"']?\s*(?:number|no\.?)?\s*[:=]?\s*[\"']?(\+?[\d(][\d ()/.-]{4,20}\d)", 1),
)  # fmt: skip
_CODE = r"(\d{2}(?:[ -]\d{2}){2,3}|\d{3}[ -]\d{3}|\d{4}[ -]\d{4}|\d{4,8}|[A-Z0-9]{4}-[A-Z0-9]{4})(?!\w|\.\d)"
_LONG = r"(\d{6,8}|\d{2}(?:[ -]\d{2}){2,3}|\d{3}[ -]\d{3}|\d{4,5}(?=\s*(?:[.,;!)]|$)))(?!\w|\.\d)"
# What else has a code, with a number that a diagnosis needs.
_NO_CODE = "".join(
    f"(?<!{word}[ _-])" for word in
    ("error", "exit", "status", "return", "result", "response", "cuda", "xid", "sxid", "signal", "reason", "http", "machine",
     "failure", "source", "sass", "ptx", "python", "kernel", "device", "the")
)  # fmt: skip
_CODES = (
    pattern("secret", r"\b(?:verification|confirmation|security|login|log-in|sign-?in|authentication|auth|one[- ]time|2fa|mfa|"
            rf"pairing|backup|recovery|access)\s+(?:code|passcode|pin)s?\b[\"']?(?:\s|is\b|was\b|[:=#])*[\"']?{_CODE}", 1),
    pattern("secret", r"\b(?:one[- ]?time[- ]?password|einmal-?(?:passwort|kennwort))s?\b[\"']?"
            rf"(?:\s|is\b|was\b|lautet\b|ist\b|[:=#])*[\"']?{_CODE}", 1),
    pattern("secret", rf"\b(?:otp|totp|2fa|mfa|passcode)(?:\s+code)?\b[\"']?\s*(?:is\b|[:=#])?\s*[\"']?{_CODE}", 1),
    pattern("secret", r"\bcode\s+(\d{4,8})(?=\s+to\s+(?:finish|sign|log|verify|confirm|continue|authenticate)\b)", 1),
    pattern("secret", rf"\b(?:your|my|dein|ihr)\s+code\b[\"']?\s*(?:is\b|was\b|lautet\b|ist\b|[:=-])+\s*{_LONG}", 1,
            re.IGNORECASE | re.MULTILINE),
    pattern("secret", rf"\b(?:enter|type|use|\d[- ]digit)\s+(?:the\s+|this\s+)?(?:\d[- ]digit\s+)?code\b\s*:?\s*{_CODE}", 1),
    pattern("secret", rf"\b{_NO_CODE}code\b\s*[:=]?\s*{_CODE}"
            r"(?=[^\n]{0,40}\b(?:expires|valid for|was sent|sent to|your phone|text message|by sms|authenticator)\b)", 1),
    pattern("secret", r"\b(?:best\u00e4tigungs|sicherheits|zugangs|einmal|verifizierungs|anmelde)-?code\b"
            rf"\s*(?:lautet\b|ist\b|[:=])?\s*{_CODE}", 1),
    pattern("secret", r"\bpin\s+(?:for|of)\s+[^\n\d]{1,40}?\s(?:is|was|=|:)\s*(\d{4,8})(?!\w|\.\d)", 1),
    pattern("secret", r"\b(?:texted|messaged|sms(?:ed)?)\s+(?:you|me|us)\s+(?:the\s+code\s+)?(\d{4,8})(?!\w|\.\d)", 1),
)  # fmt: skip
NUMBERS: tuple[Pattern, ...] = (*_CODES, *_JOBS, *_ACCOUNTS, *_TELEPHONES)
