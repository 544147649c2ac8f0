"""Positions that contain a name, whatever word it is: a host in a message of Slurm, MPI or NCCL, a user in a column."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfgpu_doctor.ticket.patterns import Pattern, pattern

_LINES = re.IGNORECASE | re.MULTILINE
_HOST = r"[a-z0-9](?:[\w.-]*\w)?"
_WITH_DIGIT = r"(?:[a-z][a-z_.-]*\d(?:[\w.-]*\w)?)"  # of a name that is a host there only if it has a number
_ONE = r"[a-z0-9](?:[\w.-]*\w)?(?:\[[\d,-]+\][\w.-]*)?(?::\d+)?"
_LIST = rf"{_ONE}(?:,{_ONE})*"
_STARTERS = (
    r"(?:mpi(?:run|exec)\w*|orterun|prterun|prun|horovodrun|deepspeed|srun|sbatch|salloc|squeue|sinfo|scontrol|pdsh"
    r"|pssh|clush|dsh|"
    r"ansible|bsub|qsub)"
)
_ROLES = r"(?:worker|ps|chief|evaluator|master|coordinator)"
_OPERATION = (
    r"(?!node\d+\b|conv|dense|layer|lstm|gru|cond|while|batch|add|mat|const|bert|block|res|model)"  # in a graph
)
_AFTER_ORTE = (
    r"(?:\*\*\*|signal(?: code)?:|failing at|\[ ?\d+\]|\[\[|mca_|pml|btl|opal|orte|pmix|prte|ucx|ucp_|ibv|hwloc|open"
    r" ?mpi|mpi_|set mca|"
    r"\d+ more process|local abort|caught signal|read -1)"
)
# Where one or more hosts stand; a list is taken apart, as the same host may stand alone elsewhere.
HOSTS = (
    pattern("hosts", rf"\*\*\* (?:job|step) \S+ (?:\w+ ){{0,3}}?on ({_LIST})", 1),
    pattern("hosts", rf"\b(?:srun|slurmstepd|slurmd|sbatch|salloc|prterun|orted)(?:-\S+)?: (?:\w+: )?({_LIST}):"
            rf" tasks? ", 1),
    pattern("hosts", rf"\b(?:slurmstepd|slurmd)-({_HOST}): ", 1),
    pattern("hosts", r"\b(?:(?:Req|Exc|Sched|Alloc)?Node(?:List|Name|Addr|HostName)|BatchHost|SubmitHost"
            r"|AllocNode:Sid|exec_?host|"
            rf"exec_vnode|host_?list|node_?list|hosts)[\"']?\s?=\s?[\"'(]?({_LIST})", 1, re.IGNORECASE),
    pattern("hosts", r"\b(?:[A-Z]+_)*(?:NODE_?LIST|NODE_?NAME|HOST|HOSTNAME|LAUNCH_NODE|HOSTS|MASTER_ADDR"
            r"|COORDINATOR_ADDRESS)"
            rf"[\"']?[=:] ?[\"']?((?i:(?=[a-z]){_LIST}))", 1, 0),
    pattern("hosts", r"\bLSB_(?:HOSTS|MCPU_HOSTS)=[\"']([^\"'\n]+)", 1),
    pattern("hosts", r"<exec_?host>([^<\n]+)", 1),
    pattern("hosts", r"\bexec_(?:host|vnode)\s?=\s?(\S+)", 1),
    pattern("hosts", rf"\bconnect(?:ed)? to \[({_HOST})\]:\d", 1),
    pattern("hosts", rf"(?<!\S)({_HOST}) slots=\d", 1),
    pattern("hosts", rf"/task:\d+: ({_HOST}):\d{{2,5}}\b", 1),
    pattern("hosts", rf"\bkubelet, ({_HOST})", 1),
    pattern("hosts", rf"\bhost(?:\(s\)|s)?(?:/queue)? <(?:\d+\*)?({_HOST})>", 1),
    pattern("hosts", rf"\s\d+\s+(?:idle|alloc|allocated|mix|mixed|down|drain|drained|drng|draining|resv|comp|plnd"
            rf"|maint)[*~#$%@+^!-]?\s+({_LIST})$",
            1, re.MULTILINE | re.IGNORECASE),
    pattern("hosts", rf"^({_HOST})\s+\d+\s+\S+\s+(?:idle|alloc|mix|down|drain|drng|resv|comp|plnd|maint)\w*"
            rf"[*~#$%@+^!-]?\s*$", 1, _LINES),
    pattern("hosts", rf"\brunning at ({_HOST})$", 1, _LINES),
    pattern("hosts", rf"\b(?:from|to) \"({_WITH_DIGIT})\"", 1),
    pattern("hosts", r"(?:\b|_)(?:addr(?:ess)?|endpoint|scheduler|coordinator|target)[\"']?(?:\s?[:=]\s?|\s)"
            rf"[\"']?(?=[a-z])({_HOST}):\d{{2,5}}\b", 1),
    pattern("hosts", rf"\baddress ({_WITH_DIGIT})(?=\s|[,.]\s|$)", 1),
    pattern("hosts", rf"^(?:pdsh@\S+: )?(?!gpu\d:)({_WITH_DIGIT}): (?=ssh exited|NVRM|\[?\d{{4}}-\d\d-|\w{{3}}"
            rf" \w{{3}} +\d)", 1, _LINES),
    pattern("hosts", rf"\bassigned \S+ to ({_HOST})", 1),
    pattern("hosts", rf"^\S+\s+\d+/\d+\s+\w+\s+\d+\s+(?:\(\S+ ago\)\s+)?\S+\s+\S+\s+"
            rf"({_HOST})\s+<none>", 1, _LINES),  # pods -o wide
    pattern("hosts", rf"\bon nodes? ({_LIST})(?= exited| died| failed)", 1),
    pattern("hosts", rf"(?<!\{{)\bnodes? ({_OPERATION}(?=[a-z][\w.-]*[\d\[]){_LIST})(?=[\s:;,.)]|$)", 1),
    pattern("hosts", rf"^\s*node(?:name)?s?:\s+({_OPERATION}{_WITH_DIGIT})(?=[\s/,]|$)", 1, _LINES),
    pattern("hosts", rf"\bnode(?:_?name|_?id)?[\"']?\s?[=:]\s?[\"']?({_OPERATION}{_WITH_DIGIT})(?=[\"',;)\s\]}}]"
            rf"|$)", 1),
    pattern("hosts", rf"\b{_STARTERS}\b[^\n|]{{0,300}}?\s(?:-H|--?hosts?|-w|--nodelist|-x|--exclude|-m)(?:\s+|=)"
            rf"({_LIST})(?=\s|$)", 1, 0),
    pattern("hosts", rf"[\"']{_ROLES}[\"']\s*:\s*\[((?:\s*[\"'][\w.-]+:\d+[\"']\s*,?)+)\]", 1),
    pattern("hosts", rf"(?:(?<=\{{)|(?<=, ))\d{{1,4}} -> ({_HOST}):\d{{2,5}}\b", 1),
    pattern("hosts", rf"^\[(?![\w.-]+\.(?:py|cc|cpp|cu|c|h):)({_HOST}):\d{{1,8}}\](?=\s*{_AFTER_ORTE})", 1, _LINES),
    pattern("hosts", rf"\[({_HOST}):\d{{1,8}}:\d{{1,8}}(?::\d{{1,8}})?\](?=\s+(?:\S+\s+ucx|caught signal))", 1),
    pattern("hosts", rf"(?<![\w.:/-])({_HOST}):\d+:\d+ \[\d+\] (?:\S+ )?NCCL ", 1),
    pattern("hosts", rf"^\[[\d,]+\]<\w+>:\s?({_HOST}):\d+:\d+ \[\d+\] (?:\S+ )?NCCL ", 1, _LINES),
    pattern("hosts", rf"\bpid\s+\d+ on\s+({_HOST})\s+device", 1),
    pattern("hosts", rf"\bLinux ({_HOST}) \d+\.\d+\.\d+\S* #\d", 1, 0),
    pattern("hosts", rf"^({_HOST})\s{{2,}}(?:mon|tue|wed|thu|fri|sat|sun) \w{{3}} +\d+ [\d:]{{8}} \d{{4}}", 1, _LINES),
    pattern("hosts", rf"\bconnection to ({_HOST}) (?:closed|refused|timed|lost|reset)", 1),
    pattern("hosts", rf"\bconnect(?:ing)? to (?:host |address )?({_HOST})(?=:\d|:? port |\.\.\.)", 1),
    pattern("hosts", rf"\blast login: [^\n]{{0,60}}\bfrom ({_HOST})", 1),
    pattern("hosts", rf"^(?!\w:)({_HOST}):(?:~|/)[^\s$#]*[$#] ", 1, _LINES),
    pattern("hosts", rf"\bnodename[\"']?\s*[:=]\s*[\"']?({_HOST})", 1),
    pattern("hosts", rf"\b(?:instance|node)=\"({_HOST})(?::\d+)?\"", 1),
    pattern("hosts", rf"^\d{{4}}-\d\d-\d\dt\S+ ({_HOST}) [\w./-]+\[\d+\]:", 1, _LINES),
    pattern("hosts", rf"\b(?:ssh|scp|sftp|rsync|mosh)\s+(?:-\w+\s+)*({_WITH_DIGIT})(?=[\s:]|$)", 1),
    pattern("hosts", rf"\ballowed to run \S+ on ({_HOST})", 1),
)  # fmt: skip


def _columns(expression: str, **groups: int) -> Iterator[Pattern]:
    """Yield a pattern for each named column of a line; `user_` is a second one of that kind."""
    compiled = re.compile(expression, _LINES)
    for kind, group in groups.items():
        yield Pattern(kind.rstrip("_"), compiled, group)


_NAME = r"([a-z_][\w.@+-]*)"
COLUMNS = (
    *_columns(rf"^\s*[bcdlps-][rwxst-]{{9}}[.+@]?\s+\d+\s+{_NAME}\s+{_NAME}\s+\d", user=1, group=2),  # ls -l
    *_columns(rf"^{_NAME}\s+\d+\s+\d{{1,5}}(?:\.\d)?\s+\d{{1,3}}\.\d\s+\d+\s+\d+\s", user=1),  # ps aux
    *_columns(rf"^{_NAME}\s+\d+\s+\d+\s+\d+\s+(?:\d\d:\d\d|[a-z]{{3}}\d\d)\s+(?:\?|pts/|tty)", user=1),  # ps -ef
    *_columns(rf"^\s*\d+\s+{_NAME}\s+(?:\d+|rt)\s+-?\d+\s+[\d.]+[mgt]?\s+[\d.]+[mgt]?\s+\d+\s+[a-z]\s", user=1),  # top
    *_columns(r"^\s*(\d{3,12}(?:_\S+)?)\s+(\S+)\s+(\S+)\s+(\S+)\s+(?:pd|r|cg|cd|ca|f|to|nf|oom|s|cf|pr)\s+(?:\d+-)?"
            r"[\d:]{4,8}\s+\d+\s+"
              rf"({_LIST}|\()", job=1, name=2, name_=3, user=4, hosts=5),  # squeue
    *_columns(rf"^\s*(\d{{3,12}})\s+\d\.\d{{2,5}}\s+(\S+)\s+{_NAME}\s+(?:h?q?w|[dehrstT]{{1,2}}|eqw"
            rf"|hqw)\s+\d\d/\d\d/\d{{4}}",
              job=1, name=2, user=3),  # qstat of Grid Engine
    *_columns(rf"^\s*(\d{{3,12}})\s+{_NAME}\s+(?:run|pend|psusp|ususp|ssusp|done|exit|unkwn|zombi)\s+(\S+)\s+"
            rf"({_HOST})\s+({_HOST})\s",
              job=1, user=2, name=3, hosts=4, hosts_=5),  # bjobs
    *_columns(r"^\s*(\d{3,12}(?:[._]\S+)?)\s+(\S+)\s+(?:(\S+)\s+)?(\S+)\s+\d+\s+(?:completed|failed|cancelled|timeout"
            r"|running|pending|"
              r"out_of_me|node_fail|preempted)\+?\s+\d+:\d+", job=1, name=2, name_=3, name__=4),  # sacct
    *_columns(rf"^\S+\s+\d+\s+{_NAME}\s+(?:cwd|rtd|txt|mem|del|\d+[rwu])\s+(?:chr|reg|dir|fifo|unix|ipv\d"
            rf"|sock)\s", user=1),  # lsof
    *_columns(rf"^\S*:?\s+{_NAME}\s+\d+\s+[f.][e.]?[f.]?[r.]?[c.]?[em.]+\s", user=1),  # fuser -v
    *_columns(rf"\buid:\s*\(\s*\d+/\s*{_NAME}\)", user=1),  # stat
    *_columns(rf"\bgid:\s*\(\s*\d+/\s*{_NAME}\)", group=1),
    *_columns(r"\b[ug]id:\s*\(\s*(\d{4,10})/", id=1),
    *_columns(rf"^# group: {_NAME}", group=1),
    *_columns(rf"^{_NAME} is not in the sudoers file", user=1),
    *_columns(rf"^owner\s{{2,}}{_NAME}\s*$", user=1),
    *_columns(r"\b(?:login|mysql\w*|psql|mongo\w*)\b[^\n|;]{0,60}?\s(?:-u|--user(?:name)?)[ =]?([a-z_][\w.-]*)(?=\s"
            r"|$)", user=1),
    *_columns(rf"\bkinit {_NAME}", user=1),
    *_columns(rf"\buserid={_NAME}(?=\()", user=1),
    *_columns(rf"\bgroupid={_NAME}(?=\()", group=1),
    *_columns(r"<\w{0,20}job_?(?:number|id)\w{0,20}>\s*(\d+)", job=1),
    *_columns(r"<\w{0,20}(?:owner|user)\w{0,20}>\s*([\w.-]+)", user=1),
    *_columns(r"^\[\d+\][^|\n]+\|[^|\n]+\|[^|\n]+\|\s*([a-z_][\w.-]*)(?::[\w.-]+"
            r"(?:/\d+)?)?\(\d+M\)", user=1),  # gpustat
    *_columns(r"(?<=\d[M?]\) )([a-z_][\w.-]*)(?::[\w.-]+(?:/\d+)?)?\(\d+M\)", user=1),
    *_columns(rf"^user (?!(?:code|process|space|mode|function|input|defined|data|program|agent)\b){_NAME} (?:is not"
            rf"|does not|may|cannot)\b",
              user=1),
    *_columns(r"\b(?:session (?:\S+ )?(?:opened for|closed for|of)|authentication failed for|password check failed"
            r" for) user "
              r"[\"'`]?([a-z_][\w.-]*\w)", user=1),
    *_columns(r"\binvalid user [\"'`]?([\w.-]+)[\"'`]? from\b", user=1),
    *_columns(r"\b(?:accepted|failed) (?:publickey|password|keyboard\S*|none|gssapi\S*) for (?:invalid user )?("
            r"[\w.-]+) from\b", user=1),
    *_columns(r"\bpassword for (?!(?:the|a|an|user|key|your|this|https?)\b)([a-z_][\w.-]*\w)\s*:", user=1),
    *_columns(r"\bcron\[\d+\]: \(([^()\s]+)\)", user=1),
    *_columns(r"\bsudo(?:\[\d+\])?:\s+([\w.-]+) : ", user=1),
    *_columns(r"\bchown\s+(?:-\S+\s+)*(?!(?:of|on|in|to|for|the|failed)\b)([a-z_][\w.-]*)(?::([a-z_][\w.-]*)?\s|\s+"
            r"(?=[/~.$\"']))",
              user=1, group=2),
    *_columns(r"\bsu (?:- |-l |--login )([a-z_][\w.-]*)", user=1),
    *_columns(r"\bsudo (?:-\w+ )*(?:-u|--user)[ =]([a-z_][\w.-]*)", user=1),
    *_columns(r"\b(?:logged in as:?|login as:|(?:running|executed|started|logged in) as (?:the )?user)\s+[\"'`<]?(?!"
            r"(?:root|a|an|the)\b)"
              r"([a-z_][\w.-]*\w)", user=1),
    *_columns(r"\blogged in as:?\s+\S+\s+\(([\w.-]+)\)", user=1),
    *_columns(r", project <([\w.-]+)>", name=1),  # bjobs -l
    *_columns(r"^\s*namespace:\s+([\w.-]+)", name=1),
    *_columns(r"\bnamespace[/=]([\w.-]+)", name=1),
    *_columns(r"\bin (?:the )?namespace:? [\"'`]?([\w.-]+)", name=1),
    *_columns(r"\b(?:kubectl|helm|oc|k9s|kubens)\b[^\n|;]{0,200}?\s(?:-n|--namespace)[ =]?([\w.-]+)", name=1),
    *_columns(r"\bkubectl config (?:use|set|delete)-context (?:--current )?([\w.@:/-]+)", name=1),
    *_columns(r"^\s*(?:signed-off|co-authored|reviewed|acked|tested|reported)-by:\s+([^<\n]+)", name=1),
    *_columns(r"^\s*(?:author|committer|maintainer):\s+([^<\n]+?)\s*<[^>\n]*>", name=1),
    *_columns(r"\bwandb_(?:entity|username)[\"']?\s*[:=]\s*[\"']?([\w.-]+)", user=1),
    *_columns(r"^entity: ([\w.-]+)", name=1),
)  # fmt: skip
POSITIONS: tuple[Pattern, ...] = (*HOSTS, *COLUMNS)

# One host of a list, without the number of its slots or its port.
ONE_HOST = re.compile(r"(?<![\w.:/-])[A-Za-z0-9][\w.-]*(?:\[[\d,-]+\][\w.-]*)?")
# What stands in such a position on every machine.
SYSTEM_ACCOUNTS = frozenset(
    ("root", "daemon", "nobody", "bin", "sys", "lp", "gdm", "lightdm", "sddm", "www-data", "syslog", "messagebus",
     "message+", "dbus", "polkitd", "rtkit", "colord", "avahi", "chrony", "ntp", "sshd", "systemd+",
     "systemd-timesyncd", "systemd-resolve", "systemd-network",
     "nvidia-persistenced", "nvidia-+", "kernoops", "whoopsie",
     "usbmux", "uuidd", "rpc", "rpcuser", "postfix", "munge", "slurm")
)  # fmt: skip
SYSTEM_GROUPS = SYSTEM_ACCOUNTS | {
    "users", "video", "render", "docker", "wheel", "staff", "nogroup", "sudo", "adm", "tty", "disk", "nvidia",
    "vglusers", "plugdev", "input", "kvm", "audio", "dialout", "shadow", "utmp", "games", "operator",
}  # fmt: skip
PUBLIC_NAMESPACES = frozenset(
    ("default", "kube-system", "kube-public", "kube-node-lease", "gpu-operator", "nvidia-gpu-operator",
     "gpu-operator-resources", "nvidia-device-plugin", "monitoring", "std", "tensorflow", "xla", "tsl",
     "cuda", "torch", "nccl", "none")
)  # fmt: skip
