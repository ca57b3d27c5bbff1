"""Chromium without a window."""

from __future__ import annotations

import shutil

__all__ = ["FLAGS", "find_chromium"]

_WITHOUT = (
    # Two pages behind the address bar of every window: they took four tenths of the processor.
    "WebUIOmniboxPopup", "WebUIOmniboxAimPopup",
    # What Playwright leaves out, whose list this one takes the place of.
    "AimEnabled", "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose",
    "HttpsUpgrades", "LensOverlay", "MediaRouter", "NetworkTimeServiceQuerying",
    "OptimizationHints", "PaintHolding", "PreconnectToSearch", "ThirdPartyStoragePartitioning",
)  # fmt: skip

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
    f"--disable-features={','.join(_WITHOUT)}",
)  # fmt: skip


def find_chromium() -> str | None:
    """Return the path of Chromium; `None` if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None)
