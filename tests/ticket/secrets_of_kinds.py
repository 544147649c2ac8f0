"""Made-up secrets of many kinds, as they are met on machines, and what of each must never be seen again."""

from __future__ import annotations

import base64
import random
import string
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

HEX, DIGITS, UPPER = "0123456789abcdef", string.digits, string.ascii_uppercase
LETTERS, SMALL = string.ascii_letters, string.ascii_lowercase
WORD = LETTERS + DIGITS
BASE64 = WORD + "+/"
URL_SAFE = WORD + "-_"


@dataclass(frozen=True)
class Secret:
    """The text in which it is met, and the parts that tell it."""

    text: str
    hidden: tuple[str, ...]


Kind = Callable[[random.Random], Secret]
KINDS: dict[str, Kind] = {}


def kind(make: Kind) -> Kind:
    KINDS[make.__name__] = make
    return make


def some(rng: random.Random, of: str, count: int) -> str:
    """So many characters, never one kind of them alone where there are several."""
    while True:
        text = "".join(rng.choice(of) for _ in range(count))
        if of not in (BASE64, URL_SAFE, WORD, HEX) or (any(map(str.isdigit, text)) and any(map(str.isalpha, text))):
            return text


def name(rng: random.Random) -> str:
    """Of a person or a machine: no word of any language."""
    return "".join(rng.choice("bdfghjklmnprstvwz") + rng.choice("aeiou") for _ in range(rng.randint(4, 6)))


def password(rng: random.Random) -> str:
    return some(rng, SMALL, 3) + some(rng, DIGITS, 2) + rng.choice("!#%_.") + some(rng, LETTERS, 6)


def alone(prefix: str, of: str, count: int, suffix: str = "") -> Kind:
    def make(rng: random.Random) -> Secret:
        body = some(rng, of, count)
        return Secret(f"{prefix}{body}{suffix}", (body,))

    return make


for label, prefix, of, count in (
    ("aws_access_key", "AKIA", UPPER + DIGITS, 16), ("aws_session_key", "ASIA", UPPER + DIGITS, 16),
    ("aws_secret_key", "aws_secret_access_key = ", BASE64, 40), ("google_api_key", "AIza", URL_SAFE, 35),
    ("google_oauth_token", "ya29.", URL_SAFE, 60), ("azure_client_secret", "Abc8Q~", URL_SAFE, 34),
    ("github_token", "ghp_", WORD, 36), ("github_fine_grained_token", "github_pat_11", WORD, 60),
    ("gitlab_token", "glpat-", URL_SAFE, 20), ("slack_token", "xoxb-2345678901-", WORD, 24),
    ("hugging_face_token", "hf_", LETTERS, 34), ("openai_key", "sk-", WORD, 48), ("openai_project_key", "sk-proj-", URL_SAFE, 60),
    ("anthropic_key", "sk-ant-api03-", URL_SAFE, 80), ("npm_token", "npm_", WORD, 36), ("pypi_token", "pypi-AgEIcHlwaS5vcmc", URL_SAFE, 60),
    ("docker_token", "dckr_pat_", URL_SAFE, 27), ("wandb_key", "WANDB_API_KEY=", HEX, 40), ("bare_hex_key", "", HEX, 40),
    ("stripe_key", "sk_live_", WORD, 24), ("twilio_key", "SK", HEX, 32), ("databricks_token", "dapi", HEX, 32),
    ("digital_ocean_token", "dop_v1_", HEX, 64), ("vault_token", "hvs.", URL_SAFE, 40), ("age_key", "AGE-SECRET-KEY-1", UPPER + DIGITS, 58),
    ("wireguard_key", "PrivateKey = ", BASE64, 43), ("bearer", "Authorization: Bearer ", WORD, 32),
    ("basic", "authorization: Basic ", WORD, 24), ("serial_number", "Serial Number : ", DIGITS, 13), ("bare_serial_number", "", DIGITS, 13),
    ("serial_of_a_board", "serial=", UPPER + DIGITS, 12), ("service_tag", "Service Tag: ", UPPER + DIGITS, 7),
    ("one_time_seed", "otpauth://totp/x?secret=", UPPER, 32), ("linear_key", "api_key: ", WORD, 20),
):  # fmt: skip
    KINDS[label] = alone(prefix, of, count)


@kind
def jwt(rng: random.Random) -> Secret:
    parts = [some(rng, URL_SAFE, count) for count in (30, 60, 43)]
    return Secret(f"eyJ{parts[0]}.eyJ{parts[1]}.{parts[2]}", tuple(parts))


def block(title: str) -> Kind:
    def make(rng: random.Random) -> Secret:
        lines = textwrap.wrap(base64.b64encode(rng.randbytes(400)).decode(), 64)
        return Secret("\n".join([f"-----BEGIN {title}-----", *lines, f"-----END {title}-----"]), tuple(lines))

    return make


for title in (
    "RSA PRIVATE KEY",
    "OPENSSH PRIVATE KEY",
    "PGP PRIVATE KEY BLOCK",
    "CERTIFICATE",
    "ENCRYPTED PRIVATE KEY",
):
    KINDS[title.lower().replace(" ", "_")] = block(title)


@kind
def key_cut_off(rng: random.Random) -> Secret:
    whole = block("EC PRIVATE KEY")(rng)
    return Secret(whole.text.rpartition("\n")[0], whole.hidden)


@kind
def key_on_one_line(rng: random.Random) -> Secret:
    whole = block("PRIVATE KEY")(rng)
    return Secret('{"private_key": "' + whole.text.replace("\n", "\\n") + '"}', whole.hidden)


@kind
def putty_key(rng: random.Random) -> Secret:
    lines = textwrap.wrap(some(rng, BASE64, 200), 64)
    text = "\n".join(
        ["PuTTY-User-Key-File-3: ssh-ed25519", "Private-Lines: 4", *lines, f"Private-MAC: {some(rng, HEX, 40)}"]
    )
    return Secret(text, tuple(lines))


@kind
def ssh_public_key(rng: random.Random) -> Secret:
    body, user, host = some(rng, BASE64, 60), name(rng), name(rng)
    return Secret(f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{body} {user}@{host}", (body, user, host))


@kind
def netrc(rng: random.Random) -> Secret:
    user, word = name(rng), password(rng)
    return Secret(f"machine git.example.com login {user} password {word}", (user, word))


@kind
def url_with_password(rng: random.Random) -> Secret:
    user, word, host = name(rng), password(rng).replace("#", "x"), name(rng)
    return Secret(f"https://{user}:{word}@{host}.example.com:8443/simple", (user, word, host))


@kind
def database_url(rng: random.Random) -> Secret:
    user, word, host = name(rng), some(rng, WORD, 12), name(rng)
    return Secret(f"postgresql+psycopg://{user}:{word}@{host}/{name(rng)}", (user, word, host))


@kind
def connection_string(rng: random.Random) -> Secret:
    host, user, word = name(rng), name(rng), some(rng, WORD, 12)
    return Secret(f"Server={host};Database=runs;Uid={user};Pwd={word};", (host, user, word))


@kind
def azure_connection_string(rng: random.Random) -> Secret:
    account, key = name(rng), some(rng, BASE64, 86)
    return Secret(f"DefaultEndpointsProtocol=https;AccountName={account};AccountKey={key}==", (account, key))


@kind
def presigned_url(rng: random.Random) -> Secret:
    bucket, signature = name(rng), some(rng, HEX, 64)
    return Secret(
        f"https://{bucket}.s3.amazonaws.com/a.h5?X-Amz-Expires=3600&X-Amz-Signature={signature}", (bucket, signature)
    )


@kind
def webhook(rng: random.Random) -> Secret:
    body = some(rng, WORD, 24)
    return Secret(f"https://hooks.slack.com/services/T0ABCDEF1/B0ABCDEF2/{body}", (body,))


@kind
def telegram_token(rng: random.Random) -> Secret:
    number, body = some(rng, DIGITS, 10), some(rng, URL_SAFE, 35)
    return Secret(f"{number}:{body}", (number, body))


@kind
def docker_login(rng: random.Random) -> Secret:
    body = base64.b64encode(f"{name(rng)}:{password(rng)}".encode()).decode()
    return Secret('{"auths": {"registry.example.com": {"auth": "' + body + '"}}}', (body.rstrip("="),))


@kind
def email(rng: random.Random) -> Secret:
    first, last, domain = name(rng), name(rng), name(rng)
    return Secret(f"{first}.{last}@{domain}.de", (first, last, domain))


@kind
def ipv4(rng: random.Random) -> Secret:
    address = f"10.{rng.randint(20, 255)}.{rng.randint(20, 255)}.{rng.randint(20, 255)}"
    return Secret(address, (address,))


@kind
def ipv4_with_port(rng: random.Random) -> Secret:
    address = f"192.168.{rng.randint(20, 255)}.{rng.randint(20, 255)}"
    return Secret(f"failed to connect to {address}:8888", (address,))


@kind
def ipv6(rng: random.Random) -> Secret:
    parts = [some(rng, HEX, 4) for _ in range(4)]
    address = f"2001:db8:{parts[0]}::{':'.join(parts[1:])}"
    return Secret(address, (address, ":".join(parts[1:])))


@kind
def mac_address(rng: random.Random) -> Secret:
    address = rng.choice(":-").join(some(rng, HEX, 2) for _ in range(6))
    return Secret(address, (address,))


@kind
def uuid(rng: random.Random) -> Secret:
    text = "-".join(some(rng, HEX, count) for count in (8, 4, 4, 4, 12))
    return Secret(text, (text, text[:8], text[-12:]))


@kind
def gpu_uuid(rng: random.Random) -> Secret:
    bare = uuid(rng)
    return Secret(f"GPU-{bare.text}", bare.hidden)


@kind
def old_mig_name(rng: random.Random) -> Secret:
    bare = uuid(rng)
    return Secret(f"MIG-GPU-{bare.text}/7/0", bare.hidden)


@kind
def password_argument(rng: random.Random) -> Secret:
    word = password(rng)
    return Secret(f"train.py --password {word} --epochs 3", (word,))


@kind
def password_of_words(rng: random.Random) -> Secret:
    word = " ".join(rng.choice(("memory", "driver", "device", "kernel", "library")) for _ in range(4))
    return Secret(f'passphrase: "{word}"', (word,))


@kind
def short_password_argument(rng: random.Random) -> Secret:
    word = password(rng)
    return Secret(f"mysql -uroot -p{word} runs", (word,))


@kind
def variables_of_many_lines(rng: random.Random) -> Secret:
    word, token = password(rng), some(rng, WORD, 20)
    return Secret(f"USER_PASSWORD='{word}'\nexport DEPLOY_TOKEN={token}\nTF_CPP_MIN_LOG_LEVEL=2", (word, token))


@kind
def licence_key(rng: random.Random) -> Secret:
    key = "-".join(some(rng, UPPER + DIGITS, 5) for _ in range(5))
    return Secret(f"License key {key}", (key,))


@kind
def cookie(rng: random.Random) -> Secret:
    session = some(rng, WORD, 26)
    return Secret(f"Set-Cookie: sessionid={session}; Path=/; HttpOnly", (session,))


@kind
def notebook_token(rng: random.Random) -> Secret:
    host, token = name(rng), some(rng, HEX, 48)
    return Secret(f"http://{host}:8888/lab?token={token}", (host, token))


@kind
def kubernetes_secret(rng: random.Random) -> Secret:
    user, word = (base64.b64encode(make(rng).encode()).decode() for make in (name, password))
    text = f"kind: Secret\ndata:\n  username: {user}\n  password: {word}"
    return Secret(text, (user.rstrip("="), word.rstrip("=")))


@kind
def kubernetes_configuration(rng: random.Random) -> Secret:
    host, key = name(rng), some(rng, BASE64, 120)
    return Secret(f"    server: https://{host}.{name(rng)}.internal:6443\n    client-key-data: {key}", (host, key))


@kind
def home_folder(rng: random.Random) -> Secret:
    user = name(rng)
    return Secret(f"/home/{user}/.venv/lib/python3.12/site-packages/tensorflow/__init__.py", (user,))


@kind
def working_folder(rng: random.Random) -> Secret:
    project = name(rng)
    return Secret(f"/srv/{project}/{name(rng)}-run/train.py", (project,))


@kind
def windows_home(rng: random.Random) -> Secret:
    user = name(rng)
    return Secret(f"C:\\Users\\{user}\\AppData\\Local\\Programs\\Python", (user,))


@kind
def prompt(rng: random.Random) -> Secret:
    user, host = name(rng), name(rng)
    return Secret(f"{user}@{host}:~$ python train.py", (user, host))


@kind
def host_of_a_company(rng: random.Random) -> Secret:
    host, domain = name(rng), name(rng)
    return Secret(f"{host}-07.{domain}.corp.example.com", (host, domain))


@kind
def syslog_line(rng: random.Random) -> Secret:
    host = name(rng)
    return Secret(f"Nov 21 10:11:12 {host} kernel: NVRM: loading NVIDIA UNIX x86_64 Kernel Module", (host,))


@kind
def windows_account(rng: random.Random) -> Secret:
    numbers = "-".join(some(rng, DIGITS[1:], 9) for _ in range(3))
    return Secret(f"S-1-5-21-{numbers}-1001", (numbers,))


@kind
def phone_number(rng: random.Random) -> Secret:
    number = f"+49 170 {some(rng, DIGITS[1:], 4)} {some(rng, DIGITS[1:], 4)}"
    return Secret(number, (number, number[8:]))


@kind
def wireless_network(rng: random.Random) -> Secret:
    network, word = name(rng), password(rng)
    return Secret(f'ssid="{network}"\npsk="{word}"', (network, word))


@kind
def container_name(rng: random.Random) -> Secret:
    owner, project = name(rng), name(rng)
    return Secret(
        f"docker run --name {owner}-{project} registry.{owner}.example.com/{project}:latest", (owner, project)
    )


@kind
def host_with_a_number(rng: random.Random) -> Secret:
    user, host = name(rng), f"{rng.choice(('node', 'dgx', 'gpu-server-'))}{rng.randint(100, 999)}"
    return Secret(f"ssh {user}@{host}", (user, host))
