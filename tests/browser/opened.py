"""A page as the browser shows it."""

from playwright.sync_api import Browser, Page


class OpenedPage:
    """A page that was opened, with all that it asked for and complained of."""

    def __init__(
        self,
        browser: Browser,
        address: str,
        scheme: str,
        width: int = 1200,
        *,
        offline: bool = False,
    ) -> None:
        self.context = browser.new_context(
            color_scheme=scheme,  # type: ignore[arg-type]
            viewport={"width": width, "height": 900},
            offline=offline,
        )
        self.page: Page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)
