"""``msshift install``, ``push`` and ``irds``: where other programs find a data set."""

from __future__ import annotations

from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json
from msshift_bench.errors import MissingError
from msshift_bench.plumbing import progress_bars
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


def install(
    source: Annotated[
        str,
        typer.Argument(
            help="A built data set, or ORG/NAME on the Hub. Default: the one that MSSHIFT_HOME "
            "names, else that of `msshift.toml`, else ./msshift.",
            show_default=False,
        ),
    ] = DATASET_NAME,
    revision: Annotated[
        str | None,
        typer.Option(help="A data version, branch or commit on the Hub. Default: the newest."),
    ] = None,
    triples: Annotated[
        bool, typer.Option("--triples", help="Prepare the configs of training triples, too.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Make a data set load by its bare name, from any folder and without a network.

    The command verifies the data set, copies it into the user's cache, and prepares it in the cache
    of the datasets library, where it replaces any other build.

    Example: `msshift install ./msshift`
    """
    from dataclasses import asdict

    from msshift_bench.data import install_dataset

    with progress_bars():
        installed = install_dataset(source, revision=revision, triples=triples)
    if as_json:
        facts = {
            **asdict(installed),
            "folder": str(installed.folder),
            "cache": str(installed.cache),
        }
        print_json(facts)
    what = "already installed" if installed.unchanged else "installed"
    note(
        f"{what}: version {installed.data_version} (content {installed.content_digest[:12]}) "
        f"in {installed.folder}\n"
        f'datasets.load_dataset("{DATASET_NAME}", "{installed.configs[0]}") now works in any '
        f"folder without a {DATASET_NAME} of its own; {len(installed.configs)} configs are in "
        f"{installed.cache}"
    )


def push(
    repo: Annotated[str, typer.Option(help="The data set repository, ORG/NAME.")],
    folder: options.BuiltFolder = DATASET_NAME,
    private: Annotated[
        bool,
        typer.Option("--private", help="Create the repository as private; stop if it is public."),
    ] = False,
    move_tag: Annotated[
        bool,
        typer.Option(
            "--move-tag", help="Move the data version's tag here, if another build holds it."
        ),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Put a built data set on the Hugging Face Hub, in one commit tagged with the data version.

    The command deletes files of the repository that are not part of the build. Pushing the same
    build twice changes nothing. It uses the token of `hf auth login`, or HF_TOKEN.

    Example: `msshift push ./msshift --repo my-org/msshift`
    """
    from dataclasses import asdict

    from msshift_bench.data import push_dataset

    pushed = push_dataset(folder, repo, private=private, move_tag=move_tag)
    if as_json:
        print_json(asdict(pushed))
    what = (
        f"{repo} holds this build already"
        if pushed.unchanged
        else f"pushed {len(pushed.files)} files to {repo}"
    )
    note(f"{what} (commit {pushed.commit[:12]}, tag {pushed.tag}): {pushed.url}")


def irds(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="A command of ir_datasets and its arguments: `export`, `lookup`, `list`, "
            "`doc_fifos` or `generate_metadata`.",
        ),
    ] = None,
    data: options.Data = DATASET_NAME,
    collection: Annotated[
        str | None,
        typer.Option(
            help="The collection that holds the passages: a folder, an ir_datasets id or `mini`. "
            "Default: the one that MSSHIFT_COLLECTION or `msshift.toml` names."
        ),
    ] = None,
) -> None:
    """Run a command of ir_datasets that knows the data set as msshift/SHIFT/GROUP/SPLIT.

    Give this command's options first; ir_datasets gets everything from COMMAND on.

    Example: `msshift irds export msshift/length/short/test queries`
    """
    from msshift_bench.data import IR_DATASETS_FAILURES, reason_of
    from msshift_bench.irds import register as register_entries

    register_entries(data, collection)
    import ir_datasets

    try:
        ir_datasets.main(arguments or [])
    except KeyError as error:
        # Some of its commands say this themselves; others let the registry's error through.
        if error.args[0] not in (arguments or []):
            raise
        note(f"Dataset {error.args[0]} not found.")
        raise typer.Exit(1) from None
    except BrokenPipeError:
        raise
    except IR_DATASETS_FAILURES as error:
        # What it could not write is named with its place.
        reason = reason_of(error) if isinstance(error, RuntimeError) else str(error)
        raise MissingError(f"ir_datasets did not get what it needs: {reason}") from None


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("install")(install)
    app.command("push")(push)
    passed_on = {"allow_interspersed_args": False, "ignore_unknown_options": True}
    app.command("irds", context_settings=passed_on)(irds)
