"""The code keeps the bounds that the design names: small classes, few parameters, plain words."""

from __future__ import annotations

import sys
from functools import cache
from importlib import util
from types import ModuleType
from typing import Any

import pytest

from tests.kit import ROOT

BOUNDS = {"most_methods_in_a_class": 18, "most_attributes_in_a_class": 16, "most_parameters": 8}
"""Sixteen methods: an open target answers each question about a target, whether it is cached among them."""


@cache
def script() -> ModuleType:
    """`scripts/count_code.py` as a module."""
    spec = util.spec_from_file_location("count_code", ROOT / "scripts" / "count_code.py")
    assert spec and spec.loader
    module = sys.modules["count_code"] = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def counted() -> Any:
    return script().count(script().read_tree("."))


def count_of(**modules: str) -> Any:
    """The numbers of a tree; `a__b` is the module a/b.py."""
    return script().count({f"{name.replace('__', '/', 1)}.py": text for name, text in modules.items()})


@pytest.mark.slow
@pytest.mark.parametrize("measure", BOUNDS)
def test_classes_and_functions_stay_below_their_bounds(measure: str) -> None:
    number, name = getattr(counted(), measure)
    assert number <= BOUNDS[measure], f"{measure.replace('_', ' ')}: {name}"


@pytest.mark.slow
def test_data_is_not_called_a_person() -> None:
    assert counted().nobody_whoever_somebody_anybody == 0


def test_attributes_are_fields_and_what_methods_assign() -> None:
    method = "    def f(self):\n        self.y, self.x = 1, 2\n        with a as self.z: pass\n"
    assert count_of(a=f"class B:\n    x: int\n{method}").most_attributes_in_a_class == (3, "B")


def test_a_class_that_derives_from_a_frozen_record_is_one() -> None:
    count = count_of(a="class S(R):\n    a: int\n    b: int\n", b="class R(Struct, frozen=True):\n    x: int\n")
    assert count.most_attributes_in_a_frozen_record == (2, "S")
    assert count.most_attributes_in_a_class == (0, "none")


def test_self_is_no_parameter_and_collected_ones_count_once() -> None:
    count = count_of(a="class C:\n    def f(self, b, /, *c, d, e=1, f=2, **h): ...\ndef g(self, b, *c, d, **e): ...\n")
    assert count.most_parameters == (6, "a.py: f")
    assert count.functions_with_more_than_five_parameters == 1


def test_comparisons_with_text_are_counted_away_from_the_edges() -> None:
    text = 'a == "x"\nb in ("x", "y")\nc not in {"x"}\n"x" != d\ne in ("x", y)\nf in "xy"\ng == 1\n'
    assert count_of(a=text).comparisons_with_a_string_away_from_the_edges == 4
    assert count_of(testing__a=text).comparisons_with_a_string_away_from_the_edges == 0


def test_imports_past_a_door_are_those_of_modules_in_other_rooms() -> None:
    reaching = "from rejoinder.b.c import C\nfrom rejoinder.b import c\nimport rejoinder.b.c\n"
    modules = {
        "a__d": f"{reaching}from rejoinder.b import B\n",
        "b____init__": "",
        "b__c": "from rejoinder.b.d import D\n",
    }
    assert count_of(**modules).imports_past_the_door_of_a_room == 3
