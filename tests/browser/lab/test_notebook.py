"""`open_lab` as the last line of a notebook's cell: the page shows in it and connects."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import nbformat
from nbclient import NotebookClient
from playwright.sync_api import Browser
from tests.browser.lab.shown import PATIENCE

CELL = """
import saddlescope as ss
task = ss.InContextRegression([0.6, 0.3], context_length=31)
setting = ss.Setting(ss.SeparateAttention(heads=3), task, ss.GradientDescent(0.5, 2000), seeds=2)
ss.open_lab(setting, port=0, warm_up=False)
"""


@contextmanager
def served(html: str) -> Iterator[str]:
    """The address of a page at another port of this machine, as a notebook's is."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f'<link rel="icon" href="data:,">{html}'.encode())

        def log_message(self, *given: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://localhost:{server.server_port}/"
        finally:
            server.shutdown()


def test_it_shows_in_a_cell_and_connects(browser: Browser) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    shown: Future[str] = Future()
    is_seen = threading.Event()

    async def hold() -> None:
        """Hold a kernel, and with it the lab, until the page is seen."""
        client = NotebookClient(notebook, timeout=PATIENCE // 1000)
        try:
            async with client.async_setup_kernel():
                cell = await client.async_execute_cell(notebook.cells[0], 0)
                shown.set_result(cell.outputs[0]["data"]["text/html"])
                await asyncio.to_thread(is_seen.wait, PATIENCE / 1000)
        except Exception as problem:
            shown.set_exception(problem)

    # Playwright has a loop of its own in this thread, and a kernel's client needs one.
    kernel = threading.Thread(target=lambda: asyncio.run(hold()))
    kernel.start()
    try:
        with served(shown.result(PATIENCE / 1000)) as address:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            complaints: list[str] = []
            page.on("console", lambda message: complaints.append(message.text))
            page.goto(address)
            frame = page.wait_for_selector("iframe").content_frame()
            assert frame is not None
            frame.wait_for_selector("#views[aria-busy=false]", timeout=PATIENCE)
            assert frame.evaluate("lab.known.seeds.length") == 2
            assert frame.evaluate("lab.known.loss(0).at(-1)") < 0.6
            assert complaints == []
            page.close()
    finally:
        is_seen.set()
        kernel.join(PATIENCE / 1000)
