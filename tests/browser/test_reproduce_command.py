"""What `saddlescope reproduce` writes, page and JSON, as the system's chromium shows it."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from saddlescope.cli import main

# The recorded ones are read rather than trained.
FIGURES = ("induction-recorded", "grokking-recorded")


def test_page_and_json_agree(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(SystemExit) as end:
        main(["reproduce", *FIGURES])
    assert end.value.code == 0
    folder = tmp_path / "out" / "reproduction"
    figures = json.loads((folder / "reproduction.json").read_text())["figures"]
    wanted = [
        [figure["id"], claim["name"], claim["verdict"], claim["expected"]]
        for published in (True, False)
        for figure in figures
        for claim in figure["claims"]
        if bool(claim["source"]) == published
    ]
    complaints: list[str] = []
    requests: list[str] = []
    page = browser.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto((folder / "index.html").as_uri())
    shown = page.eval_on_selector_all(
        "#claims tr[data-claim]",
        "rows => rows.map(row => [row.dataset.figure, row.dataset.claim, row.dataset.verdict,"
        " row.dataset.expected])",
    )
    decoded = page.evaluate(
        "Promise.all([...document.images].map(image => image.decode().then(() => true)))"
    )
    page.close()
    assert shown == wanted
    assert all(decoded)
    assert complaints == []
    assert all(url.startswith(("file:", "data:")) for url in requests)
