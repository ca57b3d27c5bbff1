"""``msshift analyse``: what do losses, and scores elsewhere, have to do with how queries differ?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note
from msshift_bench.cli.layout import in_panels
from msshift_bench.cli.targets import check_outputs
from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.evaluation import Result

__all__ = ["register"]

_PUBLISHED = ("losses", "alignment")
_ALWAYS = ("runs", "published", "format", "output")
_CHOICES = ("shift", "indicator", "measures", "train", "test", "extrapolate")
"""The options that published losses take, beyond those that go with everything."""


@options.with_values
def analyse(
    context: typer.Context,
    checking: options.Checking,
    printing: options.Printing,
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Folders of run sets (`<system>/<shift>/...`, or a folder of several systems). "
            "Or one file of models' scores, CSV or with tabs, with the columns model, "
            "interpolation, extrapolation, and one for each test set elsewhere."
        ),
    ] = None,
    published: Annotated[
        str | None,
        typer.Option(
            help="Analyse figures that papers print instead: losses (MS-Shift, 2023), or alignment "
            "(Zhan et al., 2022)."
        ),
    ] = None,
    data: options.Data = DATASET_NAME,
    shift: options.Shifts = None,
    measures: Annotated[
        str, typer.Option(help="Measures by ir_measures' names, separated by spaces or commas.")
    ] = "RR@10 ASL@100",
    indicator: Annotated[
        list[str] | None,
        typer.Option(
            help="An indicator of similarity; repeat it for several. `msshift list` lists them. "
            "Default: those that need nothing but the queries.",
        ),
    ] = None,
    split: Annotated[
        str, typer.Option(help="The groups' queries that are compared: test, train, or all.")
    ] = "test",
    encoder: Annotated[
        str | None,
        typer.Option(help="The encoder of mean-cosine and nearest-query; see similarity --help."),
    ] = None,
    models: Annotated[
        Path | None,
        typer.Option(
            help="The bi-encoders of model-based: run sets made with `msshift run --keep-model`."
        ),
    ] = None,
    bins: Annotated[int, typer.Option(help="Intervals in which losses of queries are shown.")] = 6,
    train: Annotated[
        Path | None,
        typer.Option(
            help="Foretell what is lost on new queries; this file holds the training queries "
            "(query_id, tab, text)."
        ),
    ] = None,
    test: Annotated[Path | None, typer.Option(help="The file of the new queries.")] = None,
    extrapolate: Annotated[
        bool,
        typer.Option(
            "--extrapolate",
            help="Continue the line where the new queries are less or more similar than any group "
            "that it was fitted to. Without this, that is an error (exit code 1).",
        ),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the points of an alignment (.svg, .png or .pdf)."),
    ] = None,
) -> None:
    """Say whether losses depend on similarity to the training queries, and how sure that is.

    For every shift: Rel Loss against the similarity of the groups, with a line, its test, and rank
    correlations; the losses of queries in intervals of an indicator; and the loss that the test
    sets can show. Below each table stands a plain verdict with its evidence. Groups are the
    witnesses, not queries. With --train and --test, the line of the first indicator and measure
    over most groups foretells what is lost on new queries.

    For models' scores: whether extrapolation says how models do elsewhere, better than
    interpolation does, by rank correlations over models. `docs/analysis.md` explains both.

    Example: `msshift analyse --published losses`

    Example: `msshift analyse runs/ --shift wh-words --output analysis.json`

    Example: `msshift analyse scores.csv --plot points.svg`
    """
    from msshift_bench.data import locate

    printing.check()
    if (published is None) == (not runs):
        raise UsageError(
            "give folders of run sets, a file of models' scores, or --published losses or alignment"
        )
    if published is not None and published not in _PUBLISHED:
        raise UnknownNameError("published figures", published, _PUBLISHED)
    if (train is None) != (test is None):
        raise UsageError("--train and --test name the files of training and new queries; give both")
    if extrapolate and train is None:
        raise UsageError(
            "--extrapolate is for predictions; add --train and --test, or leave it out"
        )
    queries = [path for path in (train, test) if path is not None]
    if published == "alignment" or any(Path(run).is_file() for run in runs or ()):
        if queries:
            raise UsageError("--train and --test are for losses; an alignment foretells none")
        options.refuse_others(context, (*_ALWAYS, "plot"), "an alignment of models' scores")
        check_outputs(printing.output, plot, inputs=map(Path, runs or ()))
        printing.show(_align(runs or [], plot))
        return
    if plot is not None:
        raise UsageError("--plot draws an alignment; `msshift report` draws the links of losses")
    from msshift_bench.analysis import analyse_published, analyse_run_sets, predict_losses
    from msshift_bench.evaluation import Settings
    from msshift_bench.plumbing import in_line, progress_bars

    by_encoder: Any = {} if encoder is None else {"encoder": encoder}
    by_models: Any = {} if models is None else {"models": models}
    if published is not None:
        options.refuse_others(context, (*_ALWAYS, *_CHOICES), "--published losses")
        check_outputs(printing.output, inputs=queries)
        named = measures.replace(",", " ").split() if options.is_typed(context, "measures") else ()
        analysis = analyse_published(shift or (), indicator or (), named)
    else:
        read = [locate(data), *queries, *by_models.values()]
        check_outputs(printing.output, runs=runs or (), inputs=read)
        with progress_bars(), in_line("analysing"):
            analysis = analyse_run_sets(
                runs or (),
                data,
                shift or (),
                Settings(measures=measures),
                indicators=indicator or (),
                split=split,
                bins=bins,
                allow=checking.allow or (),
                **by_encoder,
                **by_models,
            )
    if train is not None and test is not None:
        analysis = predict_losses(analysis, train, test, extrapolate=extrapolate, **by_encoder)
    printing.show(analysis)


def _align(files: list[str], plot: Path | None) -> Result:
    """Return the alignment of a file's scores, or of those that a paper prints; draw it."""
    from msshift_bench.analysis import (
        align_published,
        align_scores,
        plot_alignment,
        read_model_scores,
    )
    from msshift_bench.output import check_plot

    if plot is not None:
        check_plot(plot)
    if len(files) > 1:
        raise UsageError(f"a file of models' scores is analysed alone; got {', '.join(files)}")
    scores = read_model_scores(files[0]) if files else None
    alignment = align_published() if scores is None else align_scores(scores, files[0])
    if plot is not None:
        note(f"wrote {plot_alignment(alignment.figures, plot)}")
    return alignment


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    panels = {
        "Indicators": ("indicator", "split", "encoder", "models", "bins"),
        "New queries": ("train", "test", "extrapolate"),
    }
    app.command("analyse", cls=in_panels(panels))(analyse)
