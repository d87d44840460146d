"""Pictures of the reports that the docs keep: the terminal at 80 and 120 columns, and the Markdown as a pull request shows it.

    python -m tests.app.cli.stored_docs        # the reports themselves
    python -m benchmarks.report_pictures

Writes docs/how-to/pictures/. Needs Chromium.
"""

from __future__ import annotations

import shutil
from io import StringIO
from pathlib import Path

from markdown_it import MarkdownIt
from playwright.sync_api import Browser, ViewportSize, sync_playwright
from rich.console import Console
from rich.text import Text

from benchmarks.screenshots import compressed

REPORTS = Path(__file__).parents[1] / "docs" / "how-to" / "reports"
PICTURES = REPORTS.parent / "pictures"
TERMINALS = {"passing": (".txt", 120), "passing.80": (".txt", 80), "failing": (".txt", 120), "failing.80": (".txt", 80)}
"""The report of each, and the columns of the terminal."""
_PAGE = """<!doctype html><meta charset="utf-8"><style>
body { margin: 16px; width: 860px; font: 14px/1.5 sans-serif; color: #1f2328; background: #fff }
table { border-collapse: collapse } th, td { border: 1px solid #d1d9e0; padding: 4px 12px; text-align: left }
pre { background: #f6f8fa; padding: 12px; overflow: auto } code { font: 12px/1.45 monospace } details { margin: 12px 0 }
</style>"""


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, (ending, columns) in TERMINALS.items():
            picture(browser, terminal((REPORTS / f"{name}{ending}").read_text(), columns), PICTURES / f"{name}.png")
        for name in ("passing", "failing"):
            picture(browser, rendered((REPORTS / f"{name}.md").read_text()), PICTURES / f"{name}.md.png")
        browser.close()


def terminal(report: str, columns: int) -> str:
    """A page with a terminal of so many columns that shows the report."""
    console = Console(record=True, width=columns, file=StringIO(), force_terminal=True)
    console.print(Text(report.rstrip()), soft_wrap=False)
    drawn = console.export_svg(title=f"emplace check, {columns} columns")
    without_web_fonts = drawn.replace("@font-face", "@media none and (--x)").replace("Fira Code", "monospace")
    return f"{_PAGE}<style>body {{ width: {columns * 9 + 40}px }} svg {{ width: 100% }}</style>{without_web_fonts}"


def rendered(markdown: str) -> str:
    """A page with the report as a comment, its details open."""
    html: str = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    return _PAGE + html.replace("<details>", "<details open>")


def picture(browser: Browser, html: str, path: Path) -> None:
    page = browser.new_page(viewport=ViewportSize(width=1140, height=100))
    page.set_content(html)
    box = page.locator("body").bounding_box()
    assert box is not None
    page.set_viewport_size(ViewportSize(width=int(box["width"]) + 32, height=int(box["height"]) + 32))
    path.write_bytes(compressed(page.screenshot()))
    page.close()
    print(path)


if __name__ == "__main__":
    main()
