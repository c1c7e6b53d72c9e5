"""Pictures of every page for the docs, as WebP: `ODRADEK_PICTURES=docs/images/console` writes them there.

Each page has two, at the widths of a desktop and of a phone, which are made smaller by `SCALES`.
"""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path

from compat_tests.console.browser import Browser

#: Width in pixels -> factor of the picture.
SCALES = {1600: 0.5, 390: 0.6}
HEIGHT, _QUALITY = 900, 45
#: Pages without a route of a cluster.
OTHERS = ("login", "clusters", "error")


def name_of(route: str, width: int) -> str:
    """The file of a route: `topics-topic-messages-1600.webp`."""
    words = re.sub(r"[^a-z]+", "-", route.replace(":int", "").lower()).strip("-") or "overview"
    return f"{words}-{width}.webp"


def keep_picture(pages: Browser, route: str, width: int) -> None:
    """Writes the top of the page where the environment names a folder and the width has pictures."""
    folder = os.environ.get("ODRADEK_PICTURES")
    if folder is None or width not in SCALES:
        return
    clip = {"x": 0, "y": 0, "width": width, "height": HEIGHT, "scale": SCALES[width]}
    parameters = {"format": "webp", "quality": _QUALITY, "clip": clip}
    data = pages.driver.execute_cdp_cmd("Page.captureScreenshot", parameters)["data"]
    Path(folder).mkdir(parents=True, exist_ok=True)
    Path(folder, name_of(route, width)).write_bytes(base64.b64decode(data))
