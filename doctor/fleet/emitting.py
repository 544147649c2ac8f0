"""Render a fleet's job for Slurm, Kubernetes or MPI; every user-supplied value is quoted, so it cannot inject code."""

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
from tfgpu_doctor.model.amounts import amount

_TEMPLATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(,[A-Za-z0-9][A-Za-z0-9._-]*)*")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?")  # RFC 1123, and short enough for the names of the pods
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")


class NotEmittable(ValueError):
    """A value that cannot be used in such a job; the message names it."""


class Emission(msgspec.Struct, frozen=True, kw_only=True):
    """The values of every form of the job. Create it with `emission`, which validates them."""

    order: NodeOrder
    out: str  # the folder of the reports
    limit_s: int  # time limit after which the doctor on a node is ended
    command: str = "tfgpu-doctor"
    loads: bool = False  # whether GPUs are stress-tested, so that no other process should use them
    nodes: int | None = None
    gpus: int | None = None  # per node
    together: bool = False  # whether the nodes train together, and so must find each other

    @property
    def minutes(self) -> int:
        """A node's time limit in whole minutes, with five added to start and end."""
        return -(-self.limit_s // 60) + 5


def emission(
    order: NodeOrder, reach: NodeOrder, *, out: str, command: str, nodes: int | None, gpus: int | None
) -> Emission:
    """Validate the values. `reach`: the order with a profile's level and suites resolved. Raises NotEmittable."""
    for name, value in (
        ("--out", out), ("--command", command), ("--profile", order.profile), ("--budget", order.budget),
        *(("--suite", suite) for suite in order.suites),
    ):  # fmt: skip
        printable(name, value)
    if not os.path.isabs(out):
        raise NotEmittable(f"--out {out} is not an absolute path: every node must find the same folder")
    return Emission(
        order=order, out=out, limit_s=int(reach.limit_s), command=command, loads=reach.takes_gpus, nodes=nodes, gpus=gpus,
        together=reach.spans and nodes is not None and nodes > 1,
    )  # fmt: skip


def printable(name: str, value: str) -> str:
    """Return the value of an option. Raises NotEmittable if it contains a line break or a control or format character."""
    if not value.isprintable():
        raise NotEmittable(f"{name} {value!r} contains a nonprintable character")
    return value


def a_name(option: str, value: str) -> str:
    """Validate a name for Slurm, or several with commas. Raises NotEmittable."""
    return matching(_NAME, option, value, "letters, digits, '.', '_' and '-'")


def a_label(option: str, value: str) -> str:
    """Validate a name for a Kubernetes Job. Raises NotEmittable."""
    return matching(_LABEL, option, value, "at most 52 lower-case letters, digits and '-'")


def a_subdomain(option: str, value: str) -> str:
    """Validate a name for a Kubernetes claim or runtime class. Raises NotEmittable."""
    return matching(_SUBDOMAIN, option, value, "at most 253 lower-case letters, digits, '.' and '-'")


def an_image(option: str, value: str) -> str:
    """Validate the name of a container image. Raises NotEmittable."""
    return matching(_IMAGE, option, value, "letters, digits and '._/:@-'")


def matching(pattern: re.Pattern[str], option: str, value: str, allowed: str) -> str:
    """Validate an option by a pattern. Raises NotEmittable that says what is allowed."""
    if not pattern.fullmatch(value):
        raise NotEmittable(f"{option} {value!r} is not valid; allowed: {allowed}")
    return value


def render(template: str, **values: object) -> str:
    """Render a template from the folder `templates`."""
    return _environment().get_template(template).render(**values, kind=KIND, schema=NODE_SCHEMA)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(  # noqa: S701 - no HTML; every value goes through a filter that quotes it
        loader=jinja2.FunctionLoader(_source), trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        comment_start_string="{##", comment_end_string="##}",  # in bash, {# is part of a length expansion
    )  # fmt: skip
    environment.globals.update(workers=WORKERS, service=SERVICE)
    environment.filters.update(sh=shlex.quote, words=_words, yaml=_yaml, argument=_argument, amount=amount)
    return environment


def _source(name: str) -> str:
    return Files().read_text(os.path.join(_TEMPLATES, name))


def _words(values: Sequence[str]) -> str:
    return shlex.join(values)


def _yaml(value: str) -> str:
    """Return a double-quoted scalar: for printable text, the JSON form is valid YAML."""
    return json.dumps(value, ensure_ascii=False)


def _argument(value: str) -> str:
    """Return a double-quoted scalar for a container's arguments, where Kubernetes expands $(NAME)."""
    return _yaml(value.replace("$", "$$"))
