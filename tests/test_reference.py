"""The reference: every public name says what it is, what it takes, and shows it in an example."""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator

import pytest
from tests.links import ROOT

import saddlescope as ss

PAGES = [(ROOT / "docs" / name).read_text("utf-8") for name in ("api.md", "transformers.md")]
# Names that mean the same wherever they are an argument or a field of a result.
SHARED = set(re.findall(r"^\| `(\w+)`", PAGES[0], re.MULTILINE))


def public_names() -> Iterator[tuple[str, object]]:
    """Every public name, once, with the first module that exports it."""
    known: set[int] = set()
    for room in ss._MODULES:
        module = importlib.import_module(f"saddlescope.{room}")
        for name in module.__all__:
            found = getattr(module, name)
            if id(found) not in known:
                known.add(id(found))
                yield f"{room}.{name}", found


NAMES = dict(public_names())
# A type alias is documented by the text after its definition.
DEFINED = {
    name: found
    for name, found in NAMES.items()
    if inspect.isfunction(found) or (inspect.isclass(found) and not hasattr(found, "__origin__"))
}


def test_the_surface_is_counted_and_every_room_has_its_page() -> None:
    """A new name must be documented, or a test below fails."""
    assert len(NAMES) > 200
    assert set(NAMES) - set(DEFINED) == {"attention.Weights", "theory.Predictor"}
    shown = re.findall(r"automodule:: saddlescope\.(\w+)$", "\n".join(PAGES), re.MULTILINE)
    assert set(ss._MODULES) - set(shown) == set()


def own_text(found: object) -> str:
    """The docstring that a function or class was given; not the one that a dataclass generates."""
    text = vars(found).get("__doc__") or "" if inspect.isclass(found) else found.__doc__ or ""
    return "" if text.startswith(f"{getattr(found, '__name__', '')}(") else text


@pytest.mark.parametrize("name", DEFINED)
def test_a_name_says_what_it_is_and_shows_an_example(name: str) -> None:
    text = own_text(DEFINED[name])
    assert len(text.strip().split("\n")[0].split()) >= 3, "says what it is"
    assert ">>> " in text, "has an example, which the doctests run"


def taken(found: object) -> Iterator[str]:
    """The arguments of a function, the fields of a dataclass, or what a class is made with."""
    if dataclasses.is_dataclass(found):
        yield from (field.name for field in dataclasses.fields(found) if field.init)
    elif inspect.isfunction(found) or "__init__" in vars(found):
        yield from (name for name in inspect.signature(found).parameters if name != "self")


def told(found: object) -> str:
    """A docstring up to its example, and the names of fields that have docstrings of their own."""
    text = own_text(found).partition(">>> ")[0]
    for base in inspect.getmro(found)[1:] if inspect.isclass(found) else ():
        # An interface documents the fields that its implementations share.
        if base.__module__.startswith("saddlescope"):
            text += own_text(base).partition(">>> ")[0]
    if dataclasses.is_dataclass(found):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(found))).body
        assert isinstance(definition, ast.ClassDef)
        for field, after in zip(definition.body, definition.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr):
                text += f" {ast.unparse(field.target)}"
    return text


@pytest.mark.parametrize("name", DEFINED)
def test_a_name_says_what_it_takes(name: str) -> None:
    known = set(re.findall(r"\w+", told(DEFINED[name]))) | SHARED
    untold = [one for one in taken(DEFINED[name]) if not one.startswith("_") and one not in known]
    assert untold == []


def test_functions_say_what_they_return() -> None:
    functions = {name: found for name, found in DEFINED.items() if inspect.isfunction(found)}
    assert len(functions) > 80
    without = [
        name
        for name, found in functions.items()
        if inspect.signature(found).return_annotation is inspect.Signature.empty
    ]
    assert without == []


def test_what_the_theory_computes_has_a_tag() -> None:
    """Its docstring, or that of its result, names a tag or section of docs/theory.md."""
    tags = set(re.findall(r"^\(t(\d+)\)=", (ROOT / "docs/theory.md").read_text("utf-8"), re.M))
    untagged = []
    for name, found in DEFINED.items():
        if not name.startswith("theory.") or not inspect.isfunction(found):
            continue
        result = NAMES.get(f"theory.{inspect.signature(found).return_annotation}")
        text = own_text(found) + (own_text(result) if result else "")
        cited = set(re.findall(r"\bT(\d+)\b", text))
        assert cited <= tags, name
        if not cited and not re.search(r"section \d", text):
            untagged.append(name)
    assert untagged == []
