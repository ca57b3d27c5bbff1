"""Hiding the messages and progress bars of libraries."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType

__all__ = ["quieten"]

_LOGGERS = ("sentence_transformers",)
"""Loggers outside that of transformers whose messages come with it."""


@contextmanager
def quieten(*libraries: ModuleType) -> Iterator[None]:
    """Hide the progress bars and the messages of libraries.

    Args:
        libraries: ``datasets``, whose bars are hidden, or ``transformers``, which then shows only
            errors, like the libraries that come with it.
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
