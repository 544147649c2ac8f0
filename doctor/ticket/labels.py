"""Labels of secrets, what stands between a label and its value, and the commands that take a password as an argument.

A label may be joined to other words by a mark or a change of case (`db_password`, `authToken`), and ends where a word
ends: `serial` is none in "serialized", nor `sig` in "Signal".
"""

from __future__ import annotations

_END = r"s?(?-i:(?<=[a-z])(?![a-z])|(?<=[A-Z])(?![A-Za-z]))"
_ACCESS = (
    r"token(?!(?:s|s?_(?:per|count|id|type|len|num)\w*)[\"']?[\s:=|]+\d[\d.,]*k?"
    r"(?!\w))"  # a count of them is none
)
_LICENCE = (
    r"licen[cs]e(?![\"']?\s*[:=]\s*[\"']?"
    r"(?:NVIDIA|(?:Dual|L?GPL|AGPL|MIT|BSD|Apache|MPL|PSF|ISC|Proprietary)\b))"  # public ones
)
_PHRASE = (
    r"(?<!by)(?<!com)(?<!hlo )(?<!compiler )(?<!optimization )"
    r"(?:pass(?:word|wort|wd|phrase|code)|pass(?!pipeline|manager|through|[\"']?\s*[:=]\s*\d{1,3}(?![\w.]))|pwd)"
)
LABEL = (
    rf"[\w.-]{{0,60}}(?:{_PHRASE}|secret|credential|api[-_]?key|(?:access|account|private|shared|auth|"
    r"signing|encryption|license|licence)[-_]?key(?:[-_]?id)?|"
    rf"(?:^|(?<=[\W_]))(?:{_ACCESS}|auth|sig|psk|ssid|sid|otp|pw|pin(?!ned|[-_]?mem))|"
    rf"[-_.](?:{_ACCESS}|auth|key)|[a-z]{_ACCESS}|connection[-_]?string|session[-_]?(?:id|key)|cookie|serial(?:[-_"
    rf" ]?number)?|"
    rf"asset[-_ ]?tag|service[-_ ]?tag|{_LICENCE}){_END}[\w.-]{{0,60}}"
)
QUOTE = r"(?:\\{0,3}[\"'])?"  # also inside of a quoted document
VALUE = r"(?:\\{1,3}\"[^\"\n]*?\\{1,3}\"|\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|[^\s\"'&;,<\0][^\s\"'&;,\0]*)"

# Labels that are certain enough for the separators of tables, tuples and documents; what stands between two columns may
# also be the version in a list of packages.
CERTAIN = (
    rf"(?<![\w.-])[\w.-]{{0,60}}(?:pass(?:word|wort|wd|phrase|code)|(?-i:(?<=[a-z])Pass|(?<=_)(?:pass|PASS))|pwd|(?<!"
    rf"[a-z])pw|secret|{_ACCESS}|credential|"
    rf"(?:api|access|private|[-_])[-_ ]?key){_END}[\w.-]{{0,40}}"
)
BETWEEN = (
    r"(?:[\"']\s*,\s*(?=[\"'])|[\"']?\s+value\s*=\s*|[\"']?\s*(?:\|(?!\s*\d{1,4}\.\d+\s*\|)|=>|:=|\uff1a|%3[ad])\s*|"
    r"(?=  |\t)[ \t]+(?![ \t|:=+-]|\d{1,4}(?:\.\d{1,5})+\s))"
)
FOREIGN = (
    r"(?:kenn?wort|passwort|losung|contrase(?:\u00f1|n)a|clave|mot de passe|senha|wachtwoord|l\u00f6senord"
    r"|adgangskode|salasana|"
    r"has\u0142o|\u043f\u0430\u0440\u043e\u043b\u044c|\u5bc6\u7801|\u5bc6\u78bc|\u53e3\u4ee4"
    r"|\u30d1\u30b9\u30ef\u30fc\u30c9|"
    r"\ube44\ubc00\ubc88\ud638|parola|\u015fifre|heslo|"
    r"jelsz\u00f3|lozinka|geslo|kata sandi|m\u1eadt kh\u1ea9u|\u03ba\u03c9\u03b4\u03b9\u03ba\u03cc\u03c2)"
)
# Words for what is written with a number: of an article, a contract, a licence.
NUMBERED = (
    r"(?:(?:chassis|board|baseboard|product|system|module|card|gpu|device|disk|drive)\s+serial(?:\s+(?:number|no\.?"
    r"|id))?|"
    r"serial\s+(?:number|no\.?)|service[ _-]?tag|asset[ _-]?tag|inventory\s+(?:number|no\.?)|licen[cs]e\s?id|"
    r"s/n|(?:customer|contract|order|invoice|purchase order|entitlement|subscription|account|grant|employee|staff|student"
    r"|matriculation|personnel|membership|badge)[\s_-]+(?:number|no\.?|nr\.?|id))"
)
_LOGIN = r"(?:docker|podman|nerdctl|buildah|skopeo|helm|crane|oc|az|ibmcloud|cf|heroku)\b[^\n|;]{0,60}?\blogin"
# A command, and the options behind which its password stands.
COMMANDS = (
    (r"(?:curl|wget|https?|xh)", r"(?:-u|-U|--user|--proxy-user)[ =]?(?=[\"']?[^\s\"':]+:)"),
    (r"redis-cli", r"(?:-a|--pass)[ =]?"),
    (r"ldap\w+", r"(?-i:-w)\s*"),
    (r"openssl", r"-(?:pass|passin|passout)\s+(?:pass:)?"),
    (r"(?:smbclient|rpcclient|smbget|net)", r"(?:-U|--user)[ =]?[^\s%]+%"),
    (r"(?:zip|unzip|7za?|7zr|rar|unrar)", r"(?:-P\s*|-p(?=\S))"),
    (r"sshpass", r"-p\s*"),
    (r"net\s+use", r"(?:/user:\S+\s+|\\\\[^\s\\]+\\\S+\s+)(?!/)"),
    (r"(?:mysql|mariadb)[\w-]*", r"-p(?=\S)"),
    (_LOGIN, r"(?:-p ?|--password[ =])"),
    (r"(?:mongo\w*|sqlcmd|cypher-shell|sshfs|influx)", r"(?:-p|-P)\s*"),
    (r"wandb\s+login", r"(?:--\w+\s+)*(?=[^\s-])"),
    (r"(?:setenv|setx|(?-i:ENV)|set(?:\s+-\w+)+|set-item\s+env:)", rf"(?:(?<=:)|\b){LABEL}\s+"),
)
READS = r"(?:sudo\b[^\n|]{0,40}?\s(?-i:-\w*S\b)|\w*passwd\b|\w+\s+login\b|kinit\b|cryptsetup\b|su\b)"
