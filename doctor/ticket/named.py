"""Names told by a label, an option or a sentence: of a project, a job, a pod, a runner, the host of a database.

They are judged only in a text with one of the words in front: most lines have none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfgpu_doctor.ticket.patterns import Pattern, pattern

_ANY = re.IGNORECASE | re.MULTILINE
_HOST = r"[a-z0-9](?:[\w.-]*\w)?"
_WITH_DIGIT = r"[a-z][a-z_.-]*\d(?:[\w.-]*\w)?"
_HOSTS = rf"{_HOST}(?::\d+)?(?:,{_HOST}(?::\d+)?)*"
_NAME = r"[a-z](?:[\w./-]*\w)?"
_ACCOUNT = r"[a-z_][\w.@-]*"
_FULL = r"[^\"'\n,;<>(){}\[\]]{2,60}"  # may contain spaces
_PERSON = r"[a-z_][\w.@'-]*(?: [a-z_][\w.@'-]*){0,2}"
_NO_PERSON = (
    r"(?!(?:ops?|client|server|scheduler|kernel|driver|system|process|thread|daemon|init|root|the|an?|this|user)"
    r"(?![\w.@-]))"
)
_NONE = r"(?!(?:none|null|true|false|default|yes|no|auto|unknown|n/a)(?![\w@]|[.-]\w))"
_ROLE = r"(?!(?:worker|ps|chief|evaluator|master|coordinator|localhost)\b)"
_IS = r"[\"']?(?:\s?:\s{0,3}|=|\s?=\s{0,3}(?=[\"']))[\"']?"  # "x = y" without quotes is code
_PUBLIC = (
    r"(?:nvidia|tensorflow|nvcr\.io|docker\.io|quay\.io|gcr\.io|ghcr\.io|registry\.k8s\.io|kubeflow|jupyter|horovod"
    r"|library|public\.ecr\.aws|mcr\.microsoft\.com|registry\.access\.redhat\.com"
    r"|us-docker\.pkg\.dev/deeplearning-platform-release)"
)
_OBJECT = (
    r"(?:pod|deployment|replicaset|statefulset|daemonset|cronjob|tfjob|mpijob|pytorchjob|notebook|persistentvolumeclaim|pvc"
    r"|configmap|secret|serviceaccount|inferenceservice)"
)
_CLIENT = (
    r"(?:mysql\w*|mariadb\w*|psql|pg_\w+|createdb|redis-cli|mongo\w*|clickhouse\w*|influx|ldap\w+|smbclient|snmp\w+"
    r"|ipmitool)"
)
_WITH_USER = (  # "pip install --user", "systemctl --user" name none
    rf"(?:{_CLIENT}|docker|podman|nerdctl|curl|wget|rpcclient|squeue|sacct|scancel|qstat|pgrep|pkill)"
)
_PIECE = r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'])"
_ARGUMENT = rf"(?!-){_PIECE}+"
# What stands between a program of a batch system and its option: after the first word that is neither an option nor an
# option's value, the options are those of the program to run. Options without a value come first.
_SLURM = (
    r"(?-i:--(?:pty|exclusive|unbuffered|label|overlap|hold|parsable|quiet|verbose|overcommit|no-kill|requeue|contiguous"
    r"|test-only|wait|wait-all-nodes)|-[ulHQvOskVX])(?=\s)"
)
_GRID = r"(?-i:-(?:V|h|z|X|I|cwd|terse|clear|soft|hard))(?=\s)"
_LSF = r"(?-i:-(?:x|B|N|K|r|H|I[sp]?))(?=\s)"
_LONG = rf"--[\w-]+(?:={_PIECE}+|\s+{_ARGUMENT}|(?=\s+-))"
_SHORT = rf"-\w(?:\s+{_ARGUMENT}|(?=\s+-)|[^\s-]\S*)"  # of Slurm, also joined with its value
_WORD = rf"-\w+(?:\s+{_ARGUMENT}|(?=\s+-))"
_OF_SLURM = rf"(?:\s+(?:{_SLURM}|(?!{_SLURM})(?:{_LONG}|{_SHORT}))){{0,30}}?\s+"
_OF_GRID = rf"(?:\s+(?:{_GRID}|-pe\s+\S+\s+{_ARGUMENT}|(?!{_GRID}|-pe\s){_WORD})){{0,30}}?\s+"
_OF_LSF = rf"(?:\s+(?:{_LSF}|(?!{_LSF}){_WORD})){{0,30}}?\s+"
# Names of public products and of what everybody has: what begins with one is judged word by word.
PRODUCT = re.compile(
    r"(?:nvidia|nv|geforce|tesla|quadro|cuda|cudnn|cublas\w*|cufft|curand|cusolver|cusparse|cupti|nccl|nvcc|nvml"
    r"|nvlink|nvrtc|dcgm|tensorrt|trt|xla|jax|tensorflow|tf|keras|pytorch|torch|horovod|gpus?|cpus?|mig|google"
    r"|microsoft|github|intel|amd|rocm|linux|windows|ubuntu|debian|conda|python|docker|kubernetes|jupyter|slurm"
    r"|systemd|resnet|vgg|bert|mobilenet|efficientnet|inception|densenet|unet|yolo|mnist|cifar|imagenet|baseline"
    r"|benchmarks?|mixed_precision|fp16|bf16|fp32|int8|train(?:ing)?|tests?|main|master)(?![a-z])",
    re.IGNORECASE,
)
NO_HOST = re.compile(
    r"(?:[gc]pu|cuda|xla|nvidia|tensorflow)[:_-]?\d*|device|pinned|linux|windows|github|google|keras", re.IGNORECASE
)


def _named(kind: str, words: str, expression: str, *more: str) -> Iterator[Pattern]:
    """Yield a pattern for each group of the expression; `more` are the kinds of the second and the following groups."""
    for group, each in enumerate((kind, *more), 1):
        yield pattern(each, expression, group, _ANY, tuple(words.split("|")))


_BATCH = (
    *_named("name", "job", rf"(?<![^\W_])job[_-]?name{_IS}{_ROLE}{_NONE}({_NAME})"),
    *_named("name", "job-name", rf"--job-name\s+{_ROLE}{_NONE}({_NAME})"),
    *(each for option in ("(?-i:-A)", "(?-i:-J)", "--account") for each in
      _named("name", "sbatch|srun|salloc",
             rf"\b(?:sbatch|srun|salloc)\b{_OF_SLURM}{option}[ \t=]*[\"']?({_NAME})")),
    *(each for option in "ANP" for each in
      _named("name", "qsub|qlogin|qrsh|#pbs|#$",
             rf"(?:\b(?:qsub|qlogin|qrsh)|^\s*#(?:PBS|\$)){_OF_GRID}(?-i:-{option})[ \t]*[\"']?({_NAME})")),
    *(each for option in "JP" for each in
      _named("name", "bsub", rf"\bbsub\b{_OF_LSF}(?-i:-{option})[ \t]*[\"']?({_NAME})")),
    *_named("hosts", "bsub", r"\bbsub\b[^\n|;]{0,200}?\s-m\s+[\"']([^\"'\n]+)[\"']"),
    *_named("hosts", "<<starting on", rf"<<Starting on ({_HOST})>>"),
    # qstat of PBS: id, name, user, time, state and queue
    *_named("name", " q | r | e | h ",
            rf"^\d{{1,12}}(?:\[\d*\])?\.\S+\s+(\S+)\s+({_ACCOUNT})\s+(?:[\d:]{{5,12}}|0)\s+[QREHSTWCXMBU]\s+\S+\s*$", "user"),
    *_named("id", "project|proj|grant|account|acct",
            r"(?<![^\W_])(?:project|proj|grant|account|acct)[_-](\d{5,12})(?![^\W_])"),
)  # fmt: skip
_KUBERNETES = (
    *_named("name", "name:   ", rf"^(?-i:Name):\s{{3,}}({_NAME})\s*$"),
    *_named("name", "ago|up|exited", r"^[0-9a-f]{12} {2,}\S+ {2,}\"[^\n]*(?<=  )([\w.-]+)[ \t]*$"),  # docker ps
    *_named("name", "controlled by", r"\bcontrolled by:\s+\w+/([\w.-]+)"),
    *_named("name", "service account:", rf"^service account:\s+(?!default\b)({_NAME})"),
    *_named("name", "pod|container", r"\b(?:pod|container)s?(?:/| )\\?[\"'`]([\w.-]+)\\?[\"'`]"),
    *_named("name", "pod:", r"^pod:\s+[\w.-]+/([\w.-]+)"),
    *_named("name", "image|docker|podman|registry|singularity|apptainer",  # an image in a registry of one's own
            rf"(?<![\w./:@-])(?!{_PUBLIC}/)(?:[\w-]+\.)+[a-z]{{2,}}(?::\d+)?/([\w.-]+(?:/[\w.-]+)*)(?=:\w|@sha256)"),
    *_named("name", "/", rf"(?<![\w./-]){_OBJECT}s?(?:\.[\w.]+)?/"
            r"(?!(?:exec|logs?|scale|status|attach|portforward|proxy)(?![\w.-])|[\w.-]+\.(?:ipynb|py|ya?ml)\b)([a-z0-9][\w.-]*)"),
)  # fmt: skip
_RUNNERS = (
    *_named("host", "name", rf"(?<![^\W_])(?:runner|machine|agent|computer)[ _]?name{_IS}({_HOST})"),
    *_named("host", "building", rf"\bbuilding (?:remotely )?on ({_HOST})(?= \(| in workspace)"),
    *_named("host", "system id", rf"^\s*on ({_HOST}) \S{{8,20}}, system ID"),
    *_named("hosts", "via", rf"\brunning on ({_HOST}) via ({_HOST})\.{{3}}", "hosts"),
)  # fmt: skip
_PROJECTS = (
    *_named("name", "project|workspace|entity|bucket|tenant|team|organi|customer",
            r"(?<![^\W_])(?<!this )(?<!the )(?<!your )(?<!allocate )(?:project|workspace|entity|bucket|tenant|team"
            rf"|organi[sz]ation|customer)(?:[_-]?(?:id|name))?{_IS}{_NONE}({_NAME})(?![\w(\[])"),
    *_named("name", "repository", rf"(?<![^\W_])repository{_IS}(?!{_PUBLIC}\b)(\w[\w.-]*/[\w.-]+)"),
    *_named("name", "aws", rf"(?:(?<![^\W_])aws_profile{_IS}|\baws [^\n|;]{{0,200}}--profile[ =]){_NONE}({_NAME})"),
    *_named("name", "client_name|client name", rf"\bclient[_ ]name{_IS}{_NONE}({_NAME})"),
    *_named("name", "set project", rf"\bset project ({_NAME})"),
    *_named("name", "accountname=", r"\bAccountName=([\w-]+)"),
    *_named("name", "experiment|study", r"\b(?:experiment|study)s?(?: with)? named? [\"']([^\"'\n]+)"),
    *_named("name", "to s3|to gs|to azure", r"\bto (?:s3|gs|azure) \(([^()\n]+)\)"),
    *_named("name", ".git", r"(?<![\w.-])[\w.-]+@[\w.-]+:([\w.~/-]+?)\.git\b"),
    *_named("name", "branch", r"(?:^\s*\* branch\s+|\bon branch |\bto (?:a new )?branch ')([\w./-]+)"),
    *_named("name", "cloning into", r"\bcloning into '(?!(?:models|benchmarks|examples|docs)')([^'\n]+)'"),
    *_named("name", ",dc=|,ou=|, dc=", r"(?<!\w)(?:uid|cn|ou|dc)=([a-z][\w .-]*?)(?=,\s?(?:cn|ou|dc|o)=)"),
    *_named("name", ",dc=|, dc=", r"(?<=,)\s?dc=([\w-]+)"),
)  # fmt: skip
_PEOPLE = (
    *_named("user", " by|_by|-by",
            rf"\b(?:created|submitted|started|run|requested)[ _-]by(?: user |{_IS}){_NO_PERSON}({_PERSON})"),
    *_named("user", "submitted by", rf"\bsubmitted by (?!(?:the|a|an|user|job)\b)({_ACCOUNT})"),
    *_named("name", "author|assignee|maintainer|reporter", rf"\b(?:author|assignee|maintainer|reporter){_IS}{_NONE}({_FULL})"),
    *_named("user", "user", rf"^\s*user\s+(?!(?:driver|system|process|mode|space)\s*$)({_ACCOUNT})\s*$"),  # of ssh's settings
    *_named("user", "usermod|gpasswd", rf"\b(?:usermod|gpasswd)\b[^\n|;&$]{{0,100}}?\s({_ACCOUNT})(?=\s*(?:$|[|;&]))"),
    *_named("user", "useradd|adduser|userdel|deluser|enable-linger",
            rf"\b(?:useradd|adduser|userdel|deluser|enable-linger)\s+(?:-\S+\s+)*({_ACCOUNT})"),
    *_named("user", "does not exist", rf"\buser ({_ACCOUNT}) does not exist"),
    *_named("user", "user", r"(?:^|(?<=[\s\"']))--?(?:(?:\w+-)+user(?:name)?|username)[ \t]+[\"']?"
            rf"{_NONE}({_ACCOUNT})(?![\w:=(])"),
    *_named("user", "user", rf"[\"']--?(?:\w+-)*user(?:name)?[\"']\s*,\s*[\"']{_NONE}({_ACCOUNT})(?![\w:=(])"),
    *_named("user", "user", rf"\b{_WITH_USER}\b[^\n|;]{{0,200}}?\s--user[ \t]+[\"']?{_NONE}({_ACCOUNT})(?![\w:=(])"),
    *_named("user", "user.name", r"(?:\bgit config\b[^\n]{0,60}?\buser\.name[ \t]+|\buser\.name=)[\"']?([^\"'\n]{2,60})"),
    *_named("user", "password for user", rf"\bpassword for user [\"']?({_ACCOUNT})"),
    *_named("user", ";", r"(?:^|(?<=[;\"']))\s*(?:uid|user id)\s*=\s*([^;\"'\n]+)"),
    *_named("user", "@", rf"(?<![\w./:@-])({_ACCOUNT}):[^\s:@/\"'<>]{{3,40}}@(?!sha256\b)[\w.-]+(?=[:/\s]|$)"),
    *_named("secret", "@", rf"(?<![\w./:@-]){_ACCOUNT}:([^\s:@/\"'<>]{{3,40}})@(?!sha256\b)[\w.-]+(?=[:/\s]|$)"),
    *_named("group", "groups=", r"(?<=[=,])\d{4,10}\(([\w.@-]+)\)"),
)  # fmt: skip
_NETWORK = (
    *_named("host", "server ", rf"^server ({_HOST}) (?:[0-9a-f]{{8,12}}|any)\b"),  # of a license file
    *_named("host", "computer|logonserver", rf"\b(?:computer|logonserver){_IS}(?:\\{{2}})?({_HOST})"),
    *_named("name", "userdomain|userdnsdomain", rf"\bUSER(?:DNS)?DOMAIN(?:_\w+)?{_IS}([\w.-]+)"),
    *_named("hosts", ";", rf"(?:^|(?<=[;\"'\s]))(?:server|data source|network address)\s?=\s?(?:tcp:)?({_HOST})(?=[;,:\\])"),
    *_named("name", ";", r"(?<![^\W_])(?:database|initial catalog)\s?=\s?([^;\"'\n]+)"),
    *_named("hosts", "no_proxy", r"(?<=[=,]\.)((?:[\w-]+\.)+[a-z]{2,})(?=,|\s|$)"),
    *_named("hosts", "mount", rf"\bmount(?:ed|ing)? (?:-\S+ (?:nfs4? )?)*({_HOST}):/"),
    *_named("hosts", ":/", rf"^({_WITH_DIGIT}|[a-z][\w-]*\.[\w.-]*\w):/\S*\s+[\d.]+[KMGTP]?\s"),  # df
    *_named("hosts", "unable to reach|daemons on|daemon on",
            rf"\b(?:unable to reach (?:host )?|daemons? on )({_WITH_DIGIT})(?=[\s,.]|$)"),
    *_named("hosts", "peer ", rf"\bpeer ({_HOST})<\d"),
    *_named("hosts", "authenticity of host", rf"\bauthenticity of host '({_HOST})"),
    *_named("hosts", "-h|--host", rf"\b{_CLIENT}\b[^\n|;]{{0,200}}?\s(?:-h|--host(?:name)?)[ =]?(?!elp\b)({_HOST})"),
    *_named("hosts", "ping|trace|nslookup|dig|telnet|nc ",
            rf"\b(?:ping6?|traceroute6?|tracepath|nslookup|dig|telnet|nc)\s+(?:-\w+\s+)*({_WITH_DIGIT})(?=\s|$)"),
    *_named("hosts", "ping ", rf"\bPING ({_HOST}) \("),
    *_named("hosts", "bytes from", rf"^\d+ bytes from ({_HOST})(?=(?: \([^()\n]{{1,60}}\))?: (?:icmp_|ttl))"),
    *_named("hosts", "traceroute to", rf"\btraceroute to ({_HOST})"),
    *_named("hosts", "_host|-host|_addr|-addr",
            rf"(?<!\w)--(?:ps|worker|chief|master|main)[_-](?:hosts?|addr(?:ess)?)[ =]({_HOSTS})"),
)  # fmt: skip
NAMED: tuple[Pattern, ...] = (*_BATCH, *_KUBERNETES, *_RUNNERS, *_PROJECTS, *_PEOPLE, *_NETWORK)
