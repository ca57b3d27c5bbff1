"""The panel "Analysis": similarity of queries, its link to losses, and annotations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msshift_bench.cli import options
from msshift_bench.cli.command import allow_only, refuse
from msshift_bench.cli.output import check_outputs, note
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import progress_bars, progress_line, write_parquet
from msshift_bench.records import Qrel
from msshift_bench.shifts import grouped

if TYPE_CHECKING:
    from msshift_bench.annotation import Annotations
    from msshift_bench.evaluation import Result

_ALWAYS = ("runs", "published", "format", "output", "verbose")
_CHOICES = ("shift", "train", "test", "extrapolate")
"""More options for published losses, in addition to `_ALWAYS`."""

_OF_RUNS = ("shift", "data", "measures", "allow", "extra_test")
"""More options for an alignment of runs, in addition to `_ALWAYS`."""

_PER_TEST, _LEAKS_PER_TEST = 10, 5


def similarity(
    context: typer.Context,
    indicator: Annotated[
        str,
        typer.Option(
            help="The indicator to compute; `msshift list` lists all indicators.",
            autocompletion=options.completing("similarity:INDICATORS"),
        ),
    ] = "weighted-jaccard",
    *,
    where: Annotated[options.Questions, "Groups of a data set"],
    split: Annotated[
        str,
        typer.Option(
            metavar="OF[:AGAINST]",
            help="Which queries to compare: test, train or all; of the group, and after the colon "
            "of the other groups. Default of AGAINST: as the indicator defines it.",
            rich_help_panel="Groups of a data set",
        ),
    ] = "test",
    train: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="A file of training queries (query_id, tab, text), to compare with --test instead "
            "of groups of a data set. For overlap, `NAME=QRELS` (TREC's four columns, or three), "
            "repeatable; files with the same name are one set.",
            rich_help_panel="Files of queries",
        ),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="The file of test queries, in the same format; qrels may be graded.",
            rich_help_panel="Files of queries",
        ),
    ] = None,
    words: Annotated[options.Words, "Files of queries"] = "whitespace",
    encoding: Annotated[options.Encoding, "Encoder or models of the indicator"],
    models: Annotated[
        Path | None,
        typer.Option(
            help="The bi-encoders: a folder of run sets made with `msshift run --keep-model`; with "
            "--train and --test, the folder of one model.",
            rich_help_panel="Encoder or models of the indicator",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="The seed of the models. Default: the smallest seed of the run set.",
            rich_help_panel="Encoder or models of the indicator",
        ),
    ] = None,
    per_query: Annotated[
        Path | None,
        typer.Option(
            help="Also write every query's value, with its rank, to this Parquet file.",
            rich_help_panel="Output",
        ),
    ] = None,
    printing: options.Printing,
) -> None:
    """Compute how similar test queries are to training queries; no runs are needed.

    Each group of a shift is compared with all other groups together, or one file of queries with
    another. `docs/analysis.md` explains the indicators. For qrels files, overlap counts the test
    queries that share one or more, or two or more, relevant passages with a training query. It
    counts them for each relevance grade of the test set.

    Example: `msshift similarity --shift length`

    Example: `msshift similarity --indicator nearest-query --per-query nearest.parquet`

    Example: `msshift similarity --train train.tsv --test test.tsv --format json`

    Example: `msshift similarity --indicator overlap --train ours=qrels.txt --test
    dl19=qrels.dl19.txt`
    """
    from msshift_bench.similarity import (
        compare_files,
        compare_groups,
        count_overlap,
        find_indicator,
        similarity_per_query,
    )

    chosen = find_indicator(indicator)
    if (train is None) != (test is None):
        raise UsageError("--train and --test are the two files to compare; give both")
    refused = ("words",) if train is None else ("shift", "split")
    refuse(context, refused, "the groups of a data set" if train is None else "--train and --test")
    uses_qrels = chosen.needs == "labels" and train is not None
    if per_query is not None and (uses_qrels or not chosen.per_query):
        raise UsageError(f"{chosen.name} has no values per query; remove --per-query {per_query}")
    paths = [*(train or ()), *(test or ())]
    files = [text.partition("=")[2] if uses_qrels else text for text in paths]
    check_outputs(
        printing.output, per_query, data=None if files else where.data, inputs=[*files, models]
    )
    settings: dict[str, Any] = {
        **encoding.chosen(),
        **options.chosen({"models": models, "seed": seed}),
    }
    if uses_qrels:
        printing.show(count_overlap(_judged("--train", train), _judged("--test", test)))
        return
    with progress_bars():
        if train is None or test is None:
            values, result = compare_groups(
                where.data, where.shift or (), chosen.name, splits=split, **settings
            )
        elif len(paths) > 2:
            raise UsageError(
                f"{chosen.name} compares one --train file with one --test file, got {len(paths)}"
            )
        else:
            values, result = compare_files(train[0], test[0], chosen.name, words=words, **settings)
    if per_query is not None:
        write_parquet(per_query, similarity_per_query(values, result))
        note(f"wrote {per_query}")
    printing.show(result)


def _judged(option: str, texts: list[str] | None) -> dict[str, list[Qrel]]:
    from msshift_bench.runs import read_qrels

    files = options.pairs(option, texts, "NAME=QRELS, e.g. dl19=qrels.dl19.txt", repeated=True)
    return grouped((name, qrel) for name, path in files for qrel in read_qrels(path))


def analyse(
    context: typer.Context,
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Folders of run sets (`<system>/<shift>/...`, or a folder of several systems). "
            "Or one file of models' scores (CSV or TSV) with the columns model, interpolation, "
            "extrapolation, and one column for each other test set."
        ),
    ] = None,
    *,
    published: Annotated[
        bool,
        typer.Option(
            "--published", help="Analyse the losses published in MS-Shift (2023) instead of runs."
        ),
    ] = False,
    allow: options.Allow = None,
    printing: options.Printing,
    where: options.Questions,
    measures: Annotated[
        str,
        typer.Option(
            help="Measures in ir_measures' notation, separated by spaces or commas.",
            autocompletion=options.completing(options.MEASURES),
        ),
    ] = "RR@10 ASL@100",
    indicator: Annotated[
        list[str] | None,
        typer.Option(
            help="An indicator of `msshift list` (repeatable). Default: all that need only the "
            "queries.",
            autocompletion=options.completing("similarity:INDICATORS"),
            rich_help_panel="Indicators",
        ),
    ] = None,
    split: Annotated[
        str,
        typer.Option(
            help="The queries of each group to compare: test, train, or all.",
            rich_help_panel="Indicators",
        ),
    ] = "test",
    encoder: Annotated[
        str | None,
        typer.Option(
            help="The encoder of mean-cosine and nearest-query; see `msshift similarity --help`.",
            rich_help_panel="Indicators",
        ),
    ] = None,
    encoder_set: Annotated[options.EncoderSet, "Indicators"] = None,
    models: Annotated[
        Path | None,
        typer.Option(
            help="The bi-encoders of model-based: run sets made with `msshift run --keep-model`.",
            rich_help_panel="Indicators",
        ),
    ] = None,
    bins: Annotated[
        int,
        typer.Option(
            help="Number of intervals of an indicator in the table of losses.",
            rich_help_panel="Indicators",
        ),
    ] = 6,
    train: Annotated[
        Path | None,
        typer.Option(
            help="Predict the losses on new queries: the file of training queries (query_id, tab, "
            "text).",
            rich_help_panel="New queries",
        ),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(help="The file of the new queries.", rich_help_panel="New queries"),
    ] = None,
    extrapolate: Annotated[
        bool,
        typer.Option(
            "--extrapolate",
            help="Predict even if the new queries are less or more similar than all fitted groups. "
            "Default: stop with an error (exit code 1).",
            rich_help_panel="New queries",
        ),
    ] = False,
    extra_test: options.ExtraTest = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the points of an alignment (.svg, .png or .pdf).")
    ] = None,
) -> None:
    """Test whether losses depend on similarity to the training queries.

    For every shift, the tables show: a line of Rel Loss by the similarity of groups, with its test;
    rank correlations; losses of queries in intervals of an indicator; and the smallest detectable
    loss. A conclusion with its evidence is printed below each table. The sample of each test is the
    groups, not the queries. With --train and --test, a line predicts the losses on new queries:
    the line over the most groups, of the first indicator and measure.

    For models' scores, or runs with --extra-test, the command tests whether extrapolation predicts
    scores on other test sets better than interpolation. `docs/analysis.md` explains both.

    Example: `msshift analyse --published`

    Example: `msshift analyse runs/ --shift wh-words --output analysis.json`

    Example: `msshift analyse scores.csv --plot points.svg`
    """
    from msshift_bench.analysis import (
        analyse_published,
        analyse_run_sets,
        predict_losses,
        scores_of_runs,
    )
    from msshift_bench.evaluation import Settings, open_run_sets

    if published == bool(runs):
        raise UsageError("give folders of run sets, a file of models' scores, or --published")
    if (train is None) != (test is None):
        raise UsageError("--train and --test are the files of training and new queries; give both")
    if extrapolate and train is None:
        raise UsageError("--extrapolate is for predictions; add --train and --test, or remove it")
    extra_tests = options.extra_folders(extra_test)
    if any(Path(run).is_file() for run in runs or ()):
        allow_only(context, (*_ALWAYS, "plot"), "an alignment of models' scores")
        check_outputs(printing.output, plot, inputs=runs or ())
        printing.show(_align(runs or [], plot))
        return
    if runs and extra_tests:
        allow_only(context, (*_ALWAYS, *_OF_RUNS, "plot"), "an alignment of runs")
        check_outputs(printing.output, plot, data=where.data, inputs=[*runs, *extra_tests.values()])
        measure = Settings(measures).measures[0].name
        choice = where.data, where.shift or (), measure
        score = partial(scores_of_runs, runs, extra_tests, *choice, allow=allow or ())
        printing.show(_align([f"{', '.join(runs)}, {measure}"], plot, score))
        return
    if plot is not None:
        raise UsageError(
            "--plot draws alignments of scores; for charts of losses, use 'msshift report'"
        )

    encoder_options = options.chosen({"encoder": options.with_settings(encoder, encoder_set)})
    shifts = where.shift or ()
    if published:
        allow_only(context, (*_ALWAYS, *_CHOICES), "--published")
        check_outputs(printing.output, inputs=[train, test])
        analysis = analyse_published(shifts)
    else:
        opened = open_run_sets(
            runs or (),
            where.data,
            shifts,
            on_found=lambda files: check_outputs(
                printing.output, data=where.data, runs=files, inputs=[train, test, models]
            ),
        )
        with progress_bars(), progress_line("analysing"):
            analysis = analyse_run_sets(
                opened,
                where.data,
                shifts,
                Settings(measures=measures),
                indicators=indicator or (),
                split=split,
                bins=bins,
                allow=allow or (),
                **encoder_options,
                **options.chosen({"models": models}),
            )
    if train is not None and test is not None:
        analysis = predict_losses(analysis, train, test, extrapolate=extrapolate, **encoder_options)
    printing.show(analysis)


def _align(
    files: list[str],
    plot: Path | None,
    score: Callable[[], dict[str, dict[str, float]]] | None = None,
) -> Result:
    """Return the alignment of a file's scores, or of the scores that `score` returns.

    It is drawn in the file `plot`, if given. Several files raise UsageError.
    """
    from msshift_bench.analysis import align_scores, plot_alignment, read_model_scores
    from msshift_bench.output import check_plot

    if plot is not None:
        check_plot(plot)
    if len(files) > 1:
        raise UsageError(f"expected one file of models' scores alone, got {', '.join(files)}")
    scores = read_model_scores(files[0]) if score is None else score()
    alignment = align_scores(scores, files[0])
    if plot is not None:
        note(f"wrote {plot_alignment(alignment.figures, plot)}")
    return alignment


def annotate(
    context: typer.Context,
    train: Annotated[
        Path | None,
        typer.Option(
            help="The training queries (lines of query_id, tab, text): annotate how similar the "
            "test queries are to them.",
            rich_help_panel="Files of queries",
        ),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            help="The test queries, in the same format.", rich_help_panel="Files of queries"
        ),
    ] = None,
    candidates: Annotated[
        Path | None,
        typer.Option(
            help="Annotate which of these pairs leak: the folder or `candidates.parquet` that "
            "`msshift leakage find` wrote; a sheet; or a `.jsonl` file of the SPIRE 2022 "
            "annotations."
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="The encoder that retrieves training queries in addition to BM25: an id of the "
            "Hugging Face Hub, a folder, or `terms` (the default)."
        ),
    ] = None,
    encoder_set: options.EncoderSet = None,
    words: Annotated[options.Words, "Files of queries"] = "whitespace",
    per_test: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Number of training queries that BM25 and the encoder each retrieve for a test "
            f"query (default: {_PER_TEST}). With --candidates: number of pairs per test query, the "
            f"most similar first (default: {_LEAKS_PER_TEST}, 0 for all).",
        ),
    ] = None,
    certain: Annotated[
        bool,
        typer.Option(
            "--certain",
            help="Include the tiers same-text and same-normalised, which need no annotation.",
        ),
    ] = False,
    out: Annotated[
        Path,
        typer.Option(
            help="The file to write: a table (`.csv`), or tasks to import into Label Studio "
            "(`.json`)."
        ),
    ] = Path("sheet.csv"),
) -> None:
    """Write a sheet to annotate: test queries with the most similar training queries.

    For two files of queries, annotate their similarity: `entity` and `intent`, each 0, 1 or 2. For
    candidates of leakage, annotate whether the training query leaks the test query: `label` is
    identical, generalization, specialization, reformulation or different. `docs/leakage.md` and
    `docs/analysis.md` define these values. Give every annotator a copy, and evaluate the copies
    with `msshift agree`.

    Example: `msshift annotate --train train.tsv --test test.tsv`

    Example: `msshift annotate --candidates found/ --out review.csv`
    """
    from msshift_bench.annotation import (
        LEAKAGE,
        SIMILARITY,
        check_sheet,
        similar_pairs,
        write_sheet,
    )

    check_outputs(out, inputs=[train, test, candidates])
    check_sheet(out)
    if candidates is not None:
        refuse(context, ("train", "test", "encoder", "encoder_set", "words"), "--candidates")
        from msshift_bench.leakage import pairs_to_judge

        questions = LEAKAGE
        count = _LEAKS_PER_TEST if per_test is None else per_test
        pairs = pairs_to_judge(candidates, per_test=count or None, certain=certain)
    elif train is not None and test is not None:
        refuse(context, ("certain",), "--train and --test")
        from msshift_bench.encoders import choose_encoder

        questions = SIMILARITY
        count = _PER_TEST if per_test is None else per_test
        spec = choose_encoder(options.with_settings(encoder or "terms", encoder_set), words=words)
        with progress_bars():
            pairs = similar_pairs(train, test, spec, per_test=count)
    else:
        raise UsageError("no pairs to annotate; give --train and --test, or --candidates")
    write_sheet(pairs, questions, out)
    names = " and ".join(question.name for question in questions)
    tests = len({pair.test_id for pair in pairs})
    note(
        f"wrote {out}: {len(pairs):,} pairs of {tests:,} test queries; fill in {names} in one "
        "copy per annotator, then run 'msshift agree COPY COPY ...'"
    )


def agree(
    context: typer.Context,
    sheets: Annotated[
        list[Path],
        typer.Argument(
            help="The annotated sheets: CSV, a JSON export of Label Studio, or `.jsonl` of the "
            "SPIRE 2022 annotations."
        ),
    ],
    *,
    subset: Annotated[
        list[str] | None,
        typer.Option(
            help="`NAME=FILE`: also count only the test queries in this file, one id per line "
            "(repeatable)."
        ),
    ] = None,
    precision: Annotated[float, typer.Option(help="The minimal precision at the threshold.")] = 0.9,
    both: Annotated[
        str,
        typer.Option(
            help="The label that counts if an annotator chose both different and a type: "
            "`different` or `type`."
        ),
    ] = "different",
    disputed: Annotated[
        Path | None,
        typer.Option(
            help="Also write pairs with disagreeing annotators, and their labels, to this sheet. "
            "Decide on labels there, and run the command again with this and the other sheets."
        ),
    ] = None,
    printing: options.Printing,
) -> None:
    """Count annotators' labels of pairs of queries, and compute their agreement (Cohen's kappa).

    For similarity, the label of a pair is the annotators' median. The label of a test query is the
    highest label of its pairs. For leakage, the majority label counts. The tables show leaking
    pairs by type, and precision and recall by threshold. They also show the lowest threshold with a
    precision of 0.9 (--precision). Intervals account for the choice of test queries.

    Example: `msshift agree sheet-a.csv sheet-b.csv sheet-c.csv`

    Example: `msshift agree review-ann.csv review-bob.csv --disputed disputed.csv`
    """
    from msshift_bench.annotation import LEAKAGE, check_sheet, read_annotations, similarity_labels

    # Check all arguments before the first file is written.
    check_outputs(printing.output, disputed, inputs=sheets)
    if disputed is not None:
        check_sheet(disputed)
    subsets = {
        name: Path(path)
        for name, path in options.pairs("--subset", subset, "NAME=FILE, e.g. dev=dev.ids.txt")
    }
    if "all" in subsets:
        raise UsageError(
            "--subset all: the name 'all' is for all judged queries; choose another name"
        )
    annotations = read_annotations(sheets, both=both)
    if annotations.questions == LEAKAGE:
        from msshift_bench.leakage import review_leakage

        result = review_leakage(annotations, subsets=subsets, precision=precision)
    else:
        allowed = ("sheets", "disputed", "format", "output", "verbose")
        allow_only(context, allowed, "sheets of entity and intent")
        result = similarity_labels(annotations)
    if disputed is not None:
        _write_disputed(annotations, disputed)
    printing.show(result)


def _write_disputed(annotations: Annotations, disputed: Path) -> None:

    from msshift_bench.annotation import AGREED, write_sheet

    pairs = annotations.pairs_to_settle()
    if not pairs:
        note(f"annotators agree on every pair; {disputed} was not written")
        return
    write_sheet(pairs, annotations.questions, disputed, annotator=AGREED)
    note(f"wrote {disputed}: {len(pairs)} pairs to decide; give it with the other sheets")
