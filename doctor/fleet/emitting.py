"""A fleet's job as a text: for Slurm, Kubernetes or MPI; no value of the user's can leave its place in it."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
from collections.abc import Sequence

import jinja2
import msgspec

from tfgpu_doctor.fleet.launched import SERVICE, WORKERS
from tfgpu_doctor.fleet.node import KIND, NODE_SCHEMA
from tfgpu_doctor.fleet.order import NodeOrder
from tfgpu_doctor.host.files import Files

_TEMPLATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(,[A-Za-z0-9][A-Za-z0-9._-]*)*")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?")  # RFC 1123, and short enough for the pods' own names
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")


class NotEmittable(ValueError):
    """A value that cannot stand in such a job; the message names it."""


class Emission(msgspec.Struct, frozen=True, kw_only=True):
    """What every form of the job is made of. Make it with `emission`, which looks at the values."""

    order: NodeOrder
    out: str  # the folder of the reports
    limit_s: int  # after which a node's doctor is ended
    command: str = "tfgpu-doctor"
    loads: bool = False  # whether GPUs are put under load, so that nobody else should be on them
    nodes: int | None = None
    gpus: int | None = None  # of a node
    together: bool = False  # whether the nodes train together, and so have to find each other

    @property
    def minutes(self) -> int:
        """A node's time in whole minutes, with five to start and to end."""
        return -(-self.limit_s // 60) + 5


def emission(
    order: NodeOrder, reach: NodeOrder, *, out: str, command: str, nodes: int | None, gpus: int | None
) -> Emission:
    """The values, looked at. `reach`: what `order` comes to, a profile's level and suites. Raises NotEmittable."""
    for name, value in (
        ("--out", out), ("--command", command), ("--profile", order.profile), ("--budget", order.budget),
        *(("--suite", suite) for suite in order.suites),
    ):  # fmt: skip
        printable(name, value)
    if not os.path.isabs(out):
        raise NotEmittable(f"--out {out} is not absolute: every node has to find the same folder")
    return Emission(
        order=order, out=out, limit_s=int(reach.limit_s), command=command, loads=reach.takes_gpus, nodes=nodes, gpus=gpus,
        together=reach.spans and nodes is not None and nodes > 1,
    )  # fmt: skip


def printable(name: str, value: str) -> str:
    """The value of an option. Raises NotEmittable for one with a line break, a control or a steering character."""
    if not value.isprintable():
        raise NotEmittable(f"{name} {value!r} holds a character that cannot be printed")
    return value


def a_name(option: str, value: str) -> str:
    """A name of Slurm's, or several with commas. Raises NotEmittable."""
    return _matching(_NAME, option, value, "letters, digits, '.', '_' and '-'")


def a_label(option: str, value: str) -> str:
    """A name that Kubernetes takes for a Job. Raises NotEmittable."""
    return _matching(_LABEL, option, value, "at most 52 lower-case letters, digits and '-'")


def a_subdomain(option: str, value: str) -> str:
    """A name that Kubernetes takes for a claim or a runtime class. Raises NotEmittable."""
    return _matching(_SUBDOMAIN, option, value, "at most 253 lower-case letters, digits, '.' and '-'")


def an_image(option: str, value: str) -> str:
    """A container image. Raises NotEmittable."""
    return _matching(_IMAGE, option, value, "letters, digits and '._/:@-'")


def _matching(pattern: re.Pattern[str], option: str, value: str, allowed: str) -> str:
    if not pattern.fullmatch(value):
        raise NotEmittable(f"{option} {value!r} is no such name: {allowed}")
    return value


def render(template: str, **values: object) -> str:
    """The text of a template of `templates`."""
    return _environment().get_template(template).render(**values, kind=KIND, schema=NODE_SCHEMA)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(  # noqa: S701 - no HTML; every value goes through a filter that quotes it
        loader=jinja2.FunctionLoader(_source), trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        comment_start_string="{##", comment_end_string="##}",  # {# is a length in bash
    )  # fmt: skip
    environment.globals.update(workers=WORKERS, service=SERVICE)
    environment.filters.update(sh=shlex.quote, words=_words, yaml=_yaml, argument=_argument)
    return environment


def _source(name: str) -> str:
    return Files().read_text(os.path.join(_TEMPLATES, name))


def _words(values: Sequence[str]) -> str:
    return shlex.join(values)


def _yaml(value: str) -> str:
    """A double-quoted scalar: of what is printable, JSON's form of a text is also YAML's."""
    return json.dumps(value, ensure_ascii=False)


def _argument(value: str) -> str:
    """The same for what a container is started with, where Kubernetes puts variables in place of $(NAME)."""
    return _yaml(value.replace("$", "$$"))
