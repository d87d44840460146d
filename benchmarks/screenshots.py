"""Pictures of the dashboard's views: light, dark, on a phone, and of 1000 tables on 128 ranks.

    make demo
    EMPLACE_HOME=build/demo .venv/bin/emplace serve &
    python -m benchmarks.screenshots http://127.0.0.1:8000 docs/dashboard

Asks the service for the plans that it shows, waits for its worker to make them, and writes a PNG of each view. Needs Chromium.
"""

from __future__ import annotations

import io
import shutil
import sys
import time
from pathlib import Path
from typing import Any, Literal

import httpx
import numpy as np
from PIL import Image
from playwright.sync_api import Browser, FloatRect, Playwright, ViewportSize, sync_playwright

from emplace.app.database.states import State

ASKED: dict[str, dict[str, Any]] = {
    "m3": {"model": "m3", "host": "big-basin-16g"},
    "not-fitting": {"model": "m3", "host": "big-basin-16g", "options": {"tiers": ["hbm"]}},
    "h100": {"model": "dlrm-dcnv2", "host": "dgx-h100"},
    "h100-of-4": {"model": "dlrm-dcnv2", "host": "dgx-h100", "options": {"ranks": 4}},
}
_CURVE = {"quality": "NE 0.78", "points": [{"global_batch": 3200, "examples": "4G"}, {"global_batch": 819_200, "examples": "16G"}]}
STUDIED: dict[str, dict[str, Any]] = {
    "study": {"kind": "sweep", "model": "suite", "hosts": ["dgx-h100", "cpu-dual-socket"], "vary": ["/sparse=4,16,64"]},
    "batch": {
        "kind": "batch",
        "model": "suite",
        "set": ["sparse=16"],
        "hosts": ["big-basin-32g", "dgx-h100"],
        "batches": [400, 1600, 6400, 25_600, 102_400],
        "curve": _CURVE,
    },
}
WIDE, PHONE = ViewportSize(width=1280, height=860), ViewportSize(width=390, height=844)
WAIT_S = 600
TALLEST = 2000
"""Pixels of a picture of a long page; the rest is left out."""
COLOURS = 256
"""How many a picture has: a palette halves a PNG. With fewer, badges and stages change their colours."""


def main(url: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with httpx.Client(base_url=url, timeout=WAIT_S + 30) as api:
        ids = {name: planned(api, question) for name, question in ASKED.items()}
        ids["large"] = planned(api, large_question())
        run = measured(api)
        views = {
            "list": "/",
            "plan": f"/plans/{ids['m3']}",
            "not-fitting": f"/plans/{ids['not-fitting']}",
            "tables": f"/plans/{ids['m3']}/tables",
            "map": f"/plans/{ids['m3']}/map",
            "compare": f"/compare?plan={ids['h100']}&plan={ids['h100-of-4']}",
            "what-if": f"/plans/{ids['h100']}/what-if?hbm=40GiB",
            "new": f"/new?plan={ids['h100-of-4']}",
            "model": "/models/m3",
            "host": "/hosts/big-basin-16g",
            "models": "/models",
            "overview": "/overview",
            **{name: f"/studies/{studied(api, question)}" for name, question in STUDIED.items()},
            **run,
        }
    with sync_playwright() as playwright:
        browser = launched(playwright)
        for name, path in views.items():
            picture(browser, url + path, folder / f"{name}.png")
        for name in ("list", "plan", "study", "overview"):
            picture(browser, url + views[name], folder / f"{name}-dark.png", scheme="dark")
        for name in ("list", "plan", "study", "models", "overview"):
            picture(browser, url + views[name], folder / f"{name}-phone.png", phone=True)
        picture(browser, f"{url}/plans/{ids['large']}?ranks=load", folder / "plan-1000x128.png")
        picture(browser, f"{url}/plans/{ids['large']}/map", folder / "map-1000x128.png")
        browser.close()


def launched(playwright: Playwright) -> Browser:
    """The machine's Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    return playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])


def planned(api: httpx.Client, question: dict[str, Any]) -> str:
    """The id of the plan of a question, once it is made."""
    answer = api.post("/v1/plans", json=question, headers={"Prefer": f"wait={WAIT_S}"}).raise_for_status()
    return str(answer.json()["id"])


def studied(api: httpx.Client, question: dict[str, Any]) -> str:
    """The id of a study, once it is done."""
    study = api.post("/v1/studies", json=question).raise_for_status().json()
    deadline = time.monotonic() + WAIT_S
    while (state := api.get(f"/v1/studies/{study['id']}").json()["state"]) != State.DONE:
        assert not State(state).is_final, state
        assert time.monotonic() < deadline, f"{state} after {WAIT_S} s"
        time.sleep(1)
    return str(study["id"])


def measured(api: httpx.Client) -> dict[str, str]:
    """Views of what was measured: by `make demo`, where the service has its database."""
    views = {}
    for plan in api.get("/v1/plans", params={"limit": 200}).json()["items"]:
        if plan["measured"] is not None:
            views["run"] = f"/plans/{plan['id']}/runs/{plan['measured']['run_id']}"
    for profile in api.get("/v1/profiles").json()["items"]:
        views["profile"] = f"/profiles/{profile['id']}"
    return views


def large_question() -> dict[str, Any]:
    """1000 tables, sizes and lengths drawn from heavy tails, for 16 nodes of 8 devices."""
    rng = np.random.default_rng(1)
    sizes = np.clip(np.exp(rng.normal(np.log(1.2e6), 1.6, 1000)), 30, 2e7).astype(int).tolist()
    lengths = np.clip(np.exp(rng.normal(np.log(8), 1.1, 1000)), 1, 200).round(2).tolist()
    dims = rng.choice([32, 64, 128], 1000).tolist()
    tables = [
        {
            "name": f"t{index:04d}",
            "num_embeddings": size,
            "embedding_dim": dim,
            "features": [{"name": f"f{index:04d}", "length": {"poisson": length}}],
            "access": {"zipf": 1.05},
        }
        for index, (size, length, dim) in enumerate(zip(sizes, lengths, dims, strict=True))
    ]
    model = {
        "schema_version": 1,
        "name": "big1000",
        "local_batch_size": 1024,
        "dense_features": 500,
        "bottom_mlp": [512, 256],
        "top_mlp": [512, 256, 1],
        "interaction": "cat",
        "tables": tables,
    }
    return {"model": model, "host": "dgx-a100-40g", "options": {"nodes": 16, "work_limit": 20}}


def picture(browser: Browser, url: str, path: Path, *, scheme: Literal["light", "dark"] = "light", phone: bool = False) -> None:
    context = browser.new_context(viewport=PHONE if phone else WIDE, color_scheme=scheme)
    page = context.new_page()
    page.goto(url)
    height = min(TALLEST, page.evaluate("document.documentElement.scrollHeight"))
    whole = FloatRect(x=0, y=0, width=WIDE["width"], height=height)
    path.write_bytes(compressed(page.screenshot() if phone else page.screenshot(full_page=True, clip=whole)))
    context.close()
    print(path, path.stat().st_size, flush=True)


def compressed(png: bytes) -> bytes:
    """With a palette."""
    with Image.open(io.BytesIO(png)) as picture:
        few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    out = io.BytesIO()
    few.save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"), Path(sys.argv[2]))
