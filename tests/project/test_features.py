"""A feature exports what others may use, under one list of names."""

from __future__ import annotations

import ast
import importlib
import types

from every import every
from locations import ROOT

FEATURES = sorted(
    path.parent.name for path in (ROOT / "doctor").glob("*/__init__.py") if "exported(" in path.read_text("utf-8")
)


@every("feature", FEATURES)
def test_what_a_feature_exports_is_what_types_are_checked_with(feature: str) -> None:
    package = importlib.import_module(f"tfgpu_doctor.{feature}")
    tree = ast.parse((ROOT / f"doctor/{feature}/__init__.py").read_text("utf-8"))
    typed = {
        name.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    (table,) = (node for node in ast.walk(tree) if isinstance(node, ast.Dict))
    assert {name: f"tfgpu_doctor.{feature}.{module}" for name, module in ast.literal_eval(table).items()} == typed
    for name in typed:
        assert not isinstance(getattr(package, name), types.ModuleType), f"a module of {feature} has the name {name}"
