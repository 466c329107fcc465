"""The progress of a command as a bar in a notebook, which moves instead of adding lines."""

from __future__ import annotations

import html
import importlib
import math
import sys
import time
from typing import Any, Optional

#: The log of the command that a bar needs: finished stages, and how far the running one is.
FILTER = "warn,resemblance=info,resemblance::progress=debug"


def bar() -> Optional[Bar]:
    """A bar, if this is a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return Bar() if getattr(shell, "kernel", None) is not None else None


class Bar:
    """Shows the running stage, and how much of its input it has read."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._began = time.monotonic()
        self._stage: Optional[str] = None

    def update(self, message: str, fields: dict[str, Any]) -> None:
        """Takes a log line about a stage."""
        stage = str(fields.get("stage"))
        if stage != self._stage:
            self._stage, self._began = stage, time.monotonic()
        to_go = f", {_duration(fields['left_seconds'])} to go" if "left_seconds" in fields else ""
        text = f"[stage {fields.get('number', '?')} of {fields.get('stages', '?')}{to_go}] {stage}"
        done, all = fields.get("done"), fields.get("all")
        if done is None or not all:
            self._show(f"{text}: {message}", None)
            return
        seconds = time.monotonic() - self._began
        left = f", {seconds * (all - done) / done:.0f} s left" if done and seconds >= 1 else ""
        share = done / all
        self._show(f"{text}: {share:.0%} of {all:,} {fields.get('unit', '')}{left}", share)

    def _show(self, text: str, share: Optional[float]) -> None:
        display = importlib.import_module("IPython.display").display
        # Without a value, the bar only shows that something is going on.
        value = "" if share is None else f' value="{share:.4f}"'
        shown = {"text/plain": text, "text/html": f"<progress{value} max=\"1\"></progress> {html.escape(text)}"}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


def _duration(seconds: float) -> str:
    """Seconds as the command says them."""
    seconds = math.ceil(seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
