"""Libraries that are kept quiet while they work for us."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType

__all__ = ["quieten"]

_LOGGERS = ("sentence_transformers", "torch.onnx._internal.exporter._registration")
"""Loggers that do not stand below that of transformers, though its users meet them with it; torch's
tells of everything that is not installed, and resets the level of its parents."""


@contextmanager
def quieten(*libraries: ModuleType) -> Iterator[None]:
    """Keep the progress bars and the chatter of libraries away from the terminal.

    Args:
        libraries: ``datasets``, whose bars are hidden, or ``transformers``, of which and of the
            libraries that come with it only errors are shown.
    """
    with ExitStack() as afterwards:
        for library in libraries:
            if library.__name__ == "datasets":
                if not library.are_progress_bars_disabled():
                    library.disable_progress_bars()
                    afterwards.callback(library.enable_progress_bars)
                continue
            settings = library.utils.logging
            if settings.is_progress_bar_enabled():
                settings.disable_progress_bar()
                afterwards.callback(settings.enable_progress_bar)
            afterwards.callback(settings.set_verbosity, settings.get_verbosity())
            settings.set_verbosity_error()
            for logger in map(logging.getLogger, _LOGGERS):
                afterwards.callback(logger.setLevel, logger.level)
                logger.setLevel(logging.ERROR)
        yield
