"""The files of the page: served one by one, or all in one that opens from disk."""

from __future__ import annotations

import base64
import json
import posixpath
import re
from functools import cache
from importlib import resources

# The one copy of uPlot, which reports use too. It is read from its folder: no report is imported.
_VENDORED = ("report", "assets")
_VENDORED_FILES = ("uPlot.iife.min.js", "uPlot.min.css")
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}
_MAIN = "main.js"
# How modules import one another.
_IMPORT = re.compile(r'\b(from|import) "(\.{1,2}/[^"]+)"')


@cache
def files() -> dict[str, str]:
    """The text of every file of the page, by its path below `/page`.

    >>> "index.html" in files(), "uPlot.min.css" in files()
    (True, True)
    """
    root = resources.files("saddlescope")
    found = {
        name: root.joinpath(*_VENDORED, name).read_text(encoding="utf-8")
        for name in _VENDORED_FILES
    }
    folders = [("", root.joinpath("lab", "page"))]
    while folders:
        prefix, folder = folders.pop()
        for entry in folder.iterdir():
            if entry.is_dir():
                folders.append((f"{prefix}{entry.name}/", entry))
            elif entry.name.rpartition(".")[2] in _TYPES:
                found[prefix + entry.name] = entry.read_text(encoding="utf-8")
    return found


def content_type(name: str) -> str:
    """What a file is."""
    return _TYPES[name.rpartition(".")[2]]


def modules() -> list[str]:
    """The JavaScript modules of the page."""
    return sorted(name for name in files() if name.endswith(".js") and name not in _VENDORED_FILES)


@cache
def self_contained() -> str:
    """The page as one file, without a run: the page itself adds it when it is saved.

    Modules become data URLs in an import map, so that no build step is needed.
    """
    known = files()
    imports = {f"lab/{name}": _as_address(_with_names(name)) for name in modules()}
    text = known["index.html"]
    for name in (*_VENDORED_FILES, "lab.css"):
        source = known[name]
        if name.endswith(".css"):
            old, new = f'<link rel="stylesheet" href="page/{name}">', f"<style>{source}</style>"
        else:
            old, new = f'<script src="page/{name}"></script>', f"<script>{source}</script>"
        text = _replaced(text, old, new)
    mapped = f'<script type="importmap">{json.dumps({"imports": imports})}</script>'
    begin = f'{mapped}<script type="module">import "lab/{_MAIN}";</script>'
    return _replaced(text, f'<script type="module" src="page/{_MAIN}"></script>', begin)


def _with_names(module: str) -> str:
    """A module that imports others by their names in the map."""
    folder = posixpath.dirname(module)

    def name(match: re.Match[str]) -> str:
        return f'{match[1]} "lab/{posixpath.normpath(posixpath.join(folder, match[2]))}"'

    return _IMPORT.sub(name, files()[module])


def _replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def _as_address(module: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(module.encode()).decode()
