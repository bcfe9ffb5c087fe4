"""Fields: read off a constructor and its docstring, and parsed from text."""

from dataclasses import dataclass

import pytest

from saddlescope.errors import InvalidInput
from saddlescope.setting.fields import REQUIRED, Field, as_number, as_text, fields_of


@dataclass(frozen=True)
class Base:
    """What others derive from.

    - `width`: how wide it is.
    - `name`, `label`: what it is called, and by whom,
      over two lines.
    """

    width: int
    name: str = "none"
    label: str | None = None


@dataclass(frozen=True)
class Derived(Base):
    r"""One of them.

    - `width`: how wide this one is, in $m$.
    """

    depth: float = 0.5


def test_fields_are_the_constructors_in_their_order() -> None:
    fields = fields_of(Derived)
    assert list(fields) == ["width", "name", "label", "depth"]
    assert [field.default for field in fields.values()] == [REQUIRED, "none", None, 0.5]
    assert fields["depth"].annotation == "float"
    assert fields["label"].annotation == "str | None"
    assert fields_of(Derived) is fields, "read once"


def test_help_is_the_nearest_docstrings() -> None:
    fields = fields_of(Derived)
    assert fields["width"].help == "how wide this one is, in $m$."
    assert fields_of(Base)["width"].help == "how wide it is."
    assert fields["name"].help == fields["label"].help
    assert fields["name"].help == "what it is called, and by whom, over two lines."
    assert fields["depth"].help == ""


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        ("int", "3", 3),
        ("float", ".5", 0.5),
        ("float", "1e-3", 1e-3),
        ("float | None", "none", None),
        ("float | None", "None", None),
        ("str | None", "none", "none"),
        ("str", "3", "3"),
        ("bool", "true", True),
        ("bool", "False", False),
        ("tuple[int, ...]", "1,2", (1, 2)),
        ("tuple[int, ...]", "1", (1,)),
        ("tuple[float, ...]", "1, .5,", (1, 0.5)),
        ("Sequence[str]", "a,b", ("a", "b")),
        ("int | str", "3", 3),
        ("int | str", "all", "all"),
        ("object", "power:3", "power:3"),
        ("object", "3", 3),
        ("object", "3,", (3,)),
        ("ArrayLike", ".4,.3", (0.4, 0.3)),
    ],
)
def test_a_text_stands_for_a_value(annotation: str, text: str, value: object) -> None:
    parsed = Field("some_field", annotation, REQUIRED, "").parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("annotation", "text", "wanted"),
    [
        ("int", "two", "some-field = 'two': must be a whole number"),
        ("float", "two", "some-field = 'two': must be a number"),
        ("int | float", "", "some-field = '': must be a number"),
        ("tuple[int, ...]", "1,,2", "some-field = '': must be a whole number"),
        ("bool", "1", "some-field = '1': must be true or false"),
    ],
)
def test_a_text_that_stands_for_nothing_is_refused(annotation: str, text: str, wanted: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Field("some_field", annotation, REQUIRED, "").parse(text)
    assert str(refusal.value) == wanted


@pytest.mark.parametrize("value", [(1, 2), (7,), 0.25, True, "linear"])
def test_a_value_comes_back_from_its_text(value: object) -> None:
    name = {tuple: "tuple[int, ...]"}.get(type(value), type(value).__name__)
    assert Field("some_field", name, REQUIRED, "").parse(as_text(value)) == value


def test_a_number_is_whole_where_it_can_be() -> None:
    assert [as_number(text) for text in ("3", "3.0", "-1e2", "x", "")] == [
        3,
        3.0,
        -100.0,
        None,
        None,
    ]
    assert isinstance(as_number("3"), int)
    assert isinstance(as_number("3.0"), float)
