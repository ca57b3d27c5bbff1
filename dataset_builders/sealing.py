"""The last step of every build: write the files that describe the data set.

`seal` writes the card, the Croissant metadata and the manifest. `amend_dataset` adds files to a
built data set, and seals it again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from msshift_bench.data import (
    CARD_NAME,
    CROISSANT_NAME,
    Dataset,
    Manifest,
    content_digest,
    read_manifest,
    sha256_of,
    write_manifest,
)
from msshift_bench.dataset_builders.describe import render_card, render_croissant
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import link_file, replace_folder, write_atomically, write_json

__all__ = ["Amendment", "amend_dataset", "seal"]


def seal(folder: Path, manifest: Manifest, *, beside: Collection[str] = ()) -> Manifest:
    """Write the card, the metadata and the manifest into the folder of a data set's other files.

    Args:
        folder: the data set.
        manifest: its facts; `seal` computes the content digest and the other files' digests.
        beside: the paths of files in the folder that are no part of the data set.

    Returns:
        The manifest that was written.
    """
    manifest = replace(manifest, content_digest=content_digest(manifest.configs), files={})
    with write_atomically(folder / CARD_NAME) as file:
        file.write(render_card(manifest, folder).encode())
    write_json(folder / CROISSANT_NAME, render_croissant(manifest))
    known = {*manifest.paths(), *beside}
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*"))}
    others = {n: sha256_of(p) for n, p in paths.items() if p.is_file() and n not in known}
    manifest = replace(manifest, files=others)
    write_manifest(folder, manifest)
    return manifest


@dataclass(slots=True)
class Amendment:
    """A built data set while it is being changed.

    Attributes:
        folder: a folder with all its files; add new files, and never write into an old one.
        manifest: the data set's new manifest; assign it.
    """

    folder: Path
    manifest: Manifest

    def check_same(self, dataset: Dataset, work: str) -> None:
        """Check that the data set was not built anew since it was opened.

        Args:
            dataset: the data set as it was opened.
            work: what was done since then with its queries, for the message.

        Raises:
            UsageError: if it was.
        """
        if self.manifest.content_digest != dataset.manifest.content_digest:
            raise UsageError(f"{dataset.folder} was built anew while {work}; start again")


@contextmanager
def amend_dataset(dataset: Dataset) -> Iterator[Amendment]:
    """Change a built data set: it is replaced as a whole when the block ends without an error.

    Unchanged files are linked, not copied. Files that are no part of it stay beside it.

    Raises:
        NotFoundError: if it is no longer there.
        UsageError: if another process is writing it.
    """
    folder = dataset.folder
    with replace_folder(folder) as partial:
        # Before the folder was held, another process may have changed the data set.
        amendment = Amendment(partial, read_manifest(folder))
        own, beside = amendment.manifest.paths(), set()
        for file in sorted(folder.rglob("*")):
            if file.is_file() or file.is_symlink():
                name = file.relative_to(folder)
                target = partial / name
                target.parent.mkdir(parents=True, exist_ok=True)
                if file.is_file():
                    link_file(file, target)
                else:  # A link to a folder, such as runs on another disk, or to nothing.
                    target.symlink_to(file.readlink())
                if name.as_posix() not in own:
                    beside.add(name.as_posix())
        yield amendment
        amendment.manifest = seal(partial, amendment.manifest, beside=beside)
