"""Mathtext as plain text: $e_1$ is e₁; what has no such character is still readable."""

from __future__ import annotations

import re
import unicodedata

_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[{}^_]|\s+|.", re.DOTALL)
_GREEK = (
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa",
    "lambda", "mu", "nu", "xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi",
    "psi", "omega",
)  # fmt: skip
_SIGNS = {
    "varepsilon": "ε", "vartheta": "ϑ", "varphi": "φ", "varrho": "ϱ", "ell": "ℓ", "hbar": "ħ",
    "times": "×", "cdot": "·", "pm": "±", "mp": "∓", "div": "÷", "ast": "∗", "circ": "∘",
    "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ll": "≪", "gg": "≫", "neq": "≠", "ne": "≠",
    "approx": "≈", "sim": "∼", "simeq": "≃", "equiv": "≡", "propto": "∝", "in": "∈",
    "to": "→", "rightarrow": "→", "leftarrow": "←", "mapsto": "↦", "infty": "∞", "partial": "∂",
    "nabla": "∇", "sum": "∑", "prod": "∏", "int": "∫", "top": "⊤", "perp": "⊥", "dagger": "†",
    "langle": "⟨", "rangle": "⟩", "vert": "|", "mid": "|", "Vert": "‖", "|": "‖", "prime": "′",
    "dots": "…", "ldots": "…", "cdots": "⋯", "otimes": "⊗", "oplus": "⊕", "odot": "⊙",
    "cup": "∪", "cap": "∩", "subset": "⊂", "emptyset": "∅", "setminus": "∖",
    "quad": "  ", "qquad": "   ", ",": " ", ":": " ", ";": " ", " ": " ", "!": "",
    "left": "", "right": "", "big": "", "Big": "", "displaystyle": "",
}  # fmt: skip
_ACCENTS = {
    "hat": "\u0302", "widehat": "\u0302", "bar": "\u0304", "overline": "\u0304",
    "tilde": "\u0303", "widetilde": "\u0303", "dot": "\u0307", "ddot": "\u0308", "vec": "\u20d7",
}  # fmt: skip
_FACES = {
    "mathrm", "mathbf", "mathit", "mathsf", "mathtt", "mathcal", "mathbb", "mathfrak",
    "mathdefault", "mathregular", "boldsymbol", "text", "operatorname",
}  # fmt: skip
_LOW = dict(
    zip(
        "0123456789+-=()aeijoruvxhklmnpstβγρφχ",
        "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑᵢⱼₒᵣᵤᵥₓₕₖₗₘₙₚₛₜᵦᵧᵨᵩᵪ",
        strict=True,
    )
)
_HIGH = dict(
    zip(
        "0123456789+-=()abcdefghijklmnoprstuvwxyzT⊤′*",
        "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᵀᵀ′*",
        strict=True,
    )
)


def plain_text(text: str) -> str:
    r"""A label without its mathtext.

    >>> plain_text(r"flow time  $t/\tau$"), plain_text(r"$e_d^\top W e_{12}$")
    ('flow time t/τ', 'e_dᵀ W e₁₂')
    """
    parts = re.split(r"(?<!\\)\$", text)
    if len(parts) % 2 == 0:
        # An unpaired dollar sign: matplotlib writes the text as it is.
        return " ".join(text.split())
    shown = "".join(_mathematics(part) if index % 2 else part for index, part in enumerate(parts))
    return " ".join(unicodedata.normalize("NFC", shown.replace(r"\$", "$")).split())


def _mathematics(source: str) -> str:
    tokens = [
        token if token.startswith("\\") else token.strip() or " "
        for token in _TOKEN.findall(source)
    ]
    return _sequence(tokens[::-1])


def _sequence(rest: list[str]) -> str:
    """Read to the end of a group; `rest` is a stack, the next token last."""
    shown = ""
    while rest and rest[-1] != "}":
        shown += _next(rest)
    if rest:
        rest.pop()
    return shown


def _next(rest: list[str]) -> str:
    """The next token as text, with its arguments."""
    token = rest.pop()
    if token == "{":
        return _sequence(rest)
    if token in "_^":
        return _raised(_argument(rest), token)
    if not token.startswith("\\"):
        return "−" if token == "-" else token
    return _command(token[1:], rest)


def _argument(rest: list[str]) -> str:
    while rest and rest[-1] == " ":
        rest.pop()
    return _next(rest) if rest and rest[-1] != "}" else ""


def _command(name: str, rest: list[str]) -> str:
    if name in _SIGNS:
        return _SIGNS[name]
    if name.lower() in _GREEK:
        return unicodedata.lookup(
            f"GREEK {'SMALL' if name.islower() else 'CAPITAL'} LETTER "
            f"{name.upper().replace('LAMBDA', 'LAMDA')}"
        )
    if name in _ACCENTS:
        body = _argument(rest)
        return body[:1] + _ACCENTS[name] + body[1:]
    if name in ("frac", "dfrac", "tfrac"):
        above, below = _argument(rest), _argument(rest)
        return f"{_bracketed(above)}/{_bracketed(below)}"
    if name == "sqrt":
        return f"√{_bracketed(_argument(rest))}"
    if name in _FACES:
        return _argument(rest)
    # A function such as log, or a command that is not known here: its name.
    return name if len(name) == 1 else f"{name} " if rest and rest[-1].isalnum() else name


def _raised(text: str, where: str) -> str:
    signs, plain = (_LOW if where == "_" else _HIGH), text.replace("−", "-")
    if all(sign in signs for sign in plain):
        return "".join(signs[sign] for sign in plain)
    return f"{where}{text}" if len(text) == 1 else f"{where}({text})"


def _bracketed(text: str) -> str:
    return text if len(text) == 1 or text.isalnum() else f"({text})"
