"""Loading models: the one place that reads weights, as safetensors and in no other form.

Other files can be pickles, which run code.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from msshift_bench.data import ask_only_if_it_answers
from msshift_bench.encoders.model_settings import DEFAULTS, ModelSettings
from msshift_bench.errors import DataError, require
from msshift_bench.libraries import Library, sentence_transformers

_safetensors: Any = Library("safetensors")
_hub_errors: Any = Library("huggingface_hub.errors")

_SAFETENSORS = {"use_safetensors": True}
"""The option with which transformers loads safetensors and nothing else."""

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")

_UNCONVERTED = "DISABLE_SAFETENSORS_CONVERSION"

_CONVERSION = (
    "where you trust its author, convert it once: python -c 'import sys, torch, safetensors.torch "
    "as s; s.save_file({{k: v.clone() for k, v in torch.load(sys.argv[1], weights_only=True)"
    '.items()}}, sys.argv[2], {{"format": "pt"}})\' {0} {1}'
)


def load_model(
    model_type: str, where: str | Path, settings: ModelSettings = DEFAULTS, **options: Any
) -> Any:
    """Return a model of sentence-transformers, as it was saved; `ModelSettings.set_up` changes it.

    Args:
        model_type: the name of its class, e.g. ``SentenceTransformer``.
        where: a folder, or an id of the Hugging Face Hub.
        settings: the settings that decide how weights are loaded.
        **options: further options of the class.

    Raises:
        DataError: if its weights are pickles.
    """
    model_class = getattr(sentence_transformers, model_type)
    with only_safetensors(where):
        return model_class(
            str(where),
            local_files_only=Path(where).is_dir(),
            model_kwargs={**settings.model_kwargs, **_SAFETENSORS},
            revision=settings.revision,
            trust_remote_code=settings.trust_remote_code,
            **options,
        )


def load_transformer(where: str | Path, settings: ModelSettings = DEFAULTS, **options: Any) -> Any:
    """Return a transformer as a module of sentence-transformers.

    Args:
        where: a folder, or an id of the Hugging Face Hub.
        settings: the settings that decide how weights are loaded.
        **options: options of sentence-transformers' module ``Transformer``.

    Raises:
        DataError: if its weights are pickles.
    """
    parts = ("model_kwargs", "processor_kwargs", "config_kwargs")
    options |= {part: {**settings.of_hub(), **options.get(part, {})} for part in parts}
    options["model_kwargs"] |= {**settings.model_kwargs, **_SAFETENSORS}
    with only_safetensors(where):
        return sentence_transformers.base.modules.Transformer(str(where), **options)


def load_weights(
    model_class: Any, where: str | Path, settings: ModelSettings = DEFAULTS, **options: Any
) -> Any:
    """Return what ``model_class.from_pretrained`` of transformers returns.

    Args:
        model_class: a class of transformers' models.
        where: a folder, or an id of the Hugging Face Hub.
        settings: the settings that decide how weights are loaded.
        **options: further options of ``from_pretrained``.

    Raises:
        DataError: if its weights are pickles.
    """
    chosen = {**settings.of_hub(), **settings.model_kwargs, **options, **_SAFETENSORS}
    with only_safetensors(where):
        return model_class.from_pretrained(str(where), **chosen)


def check_weights(folder: Path) -> None:
    """Check that each part of a model holds its weights as safetensors; no file is opened.

    Args:
        folder: the model; its parts may have folders of their own.

    Raises:
        DataError: if there are weights in another form only.
    """
    for path in sorted(folder.rglob("*")):
        # transformers reads these names only; ``training_args.bin`` and the like are no weights.
        is_weights = path.suffix in _PICKLED and path.name.startswith(("pytorch_model", "model"))
        if is_weights and not any(path.parent.glob("*.safetensors")):
            raise DataError(
                f"{path} is a pickle, which can run what its author wrote; only safetensors are "
                f"read: {_CONVERSION.format(path, path.with_name('model.safetensors'))}"
            )


@contextmanager
def only_safetensors(where: str | Path, what: str = "a neural system") -> Iterator[None]:
    """Refuse pickles while libraries load a model, from the cache if the Hub does not answer.

    Args:
        where: the model: a folder, or an id of the Hugging Face Hub.
        what: what needs the libraries.

    Raises:
        DataError: if the model has weights in another form only.
    """
    if Path(where).is_dir():
        check_weights(Path(where))
    ask_only_if_it_answers(where, what)
    library: Any = require("torch", "neural", what)

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise DataError(
            f"{where} has weights that are no safetensors, but a pickle, which can run what its "
            f"author wrote; download it ('hf download {where} --local-dir FOLDER') and, "
            + _CONVERSION.format("FOLDER/pytorch_model.bin", "FOLDER/model.safetensors")
        )

    # Parts of models of sentence-transformers have no option that forbids pickles. transformers
    # would ask the Hub to convert them, in public and in the user's name.
    loads, converts = library.load, os.environ.get(_UNCONVERTED)
    library.load = refuse
    os.environ[_UNCONVERTED] = "1"
    try:
        yield
    except OSError as error:
        if not Path(where).is_dir() and "`safetensors`" in str(error):
            refuse()
        raise
    finally:
        library.load = loads
        if converts is None:
            del os.environ[_UNCONVERTED]
        else:
            os.environ[_UNCONVERTED] = converts


def loading_errors() -> tuple[type[Exception], ...]:
    """Return what libraries raise if a model's files are cut off or do not fit together."""
    of_libraries = (_safetensors.SafetensorError, _hub_errors.StrictDataclassError)
    return (OSError, ValueError, TypeError, RuntimeError, *of_libraries)
