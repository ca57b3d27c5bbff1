"""The whole examination."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msshift_bench.doctor.diagnosis import Diagnosis
from msshift_bench.doctor.installation import look_at_installation
from msshift_bench.doctor.machine import look_at_disk, look_at_gpu, look_at_threads
from msshift_bench.doctor.places import look_at_collection, look_at_data, look_at_hub
from msshift_bench.doctor.upkeep import look_at_cache

__all__ = ["examine"]


def examine(
    data: str | Path | Sequence[str | Path] = (),
    collection: str | None = None,
    *,
    ask_hub: bool = True,
) -> Iterator[Diagnosis]:
    """Look at what may stand in the way: installation, threads, disk, GPU, cache, Hub, data.

    Nothing is changed, and no token is shown.

    Args:
        data: a built data set to verify, or several; by default those that the bare name `msshift`
            may mean.
        collection: a collection to count and to name, e.g. a local copy of MS MARCO.
        ask_hub: whether the Hugging Face Hub is asked whether it answers.

    Returns:
        An iterator over what is found, each with its state and, where something is to be done, its
        cure. It looks as it goes.

    Raises:
        OSError: if a folder cannot be looked into. Damaged data are no error but a finding.
    """
    yield from look_at_installation()
    yield from look_at_threads()
    yield from look_at_disk()
    yield from look_at_gpu()
    yield from look_at_cache()
    yield from look_at_hub(ask=ask_hub)
    yield from look_at_data([data] if isinstance(data, str | Path) else data)
    if collection is not None:
        yield from look_at_collection(collection)
