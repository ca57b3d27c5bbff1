"""Load models: the only module that reads weights, from safetensors only.

Other files of weights can be pickles, which run code.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from msshift_bench.data import use_cache_if_offline
from msshift_bench.encoders.model_settings import DEFAULTS, ModelSettings
from msshift_bench.errors import DataError, require
from msshift_bench.libraries import Library, sentence_transformers

_safetensors: Any = Library("safetensors")
_hub_errors: Any = Library("huggingface_hub.errors")

_SAFETENSORS = {"use_safetensors": True}
"""The option with which transformers loads weights from safetensors only."""

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")

_UNCONVERTED = "DISABLE_SAFETENSORS_CONVERSION"

_CONVERSION = (
    "if you trust its author, convert it once: python -c 'import sys, torch, safetensors.torch "
    "as s; s.save_file({{k: v.clone() for k, v in torch.load(sys.argv[1], weights_only=True)"
    '.items()}}, sys.argv[2], {{"format": "pt"}})\' {0} {1}'
)


def load_model(
    model_type: str, where: str | Path, settings: ModelSettings = DEFAULTS, **options: Any
) -> Any:
    """Return a model of sentence-transformers as it was saved.

    If it does not exist or cannot be loaded, this raises one of `loading_errors`.

    Args:
        model_type: the name of the model's class, e.g. ``SentenceTransformer``.
        where: a folder, or an id of the Hugging Face Hub.
        settings: the settings; only `OF_LOADING` are used, `ModelSettings.set_up` applies others.
        **options: further options of the class.

    Raises:
        DataError: if the model's weights are pickles.
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
    """Return a transformer as a module of sentence-transformers; see `load_model` for errors.

    Args:
        where: a folder, or an id of the Hugging Face Hub.
        settings: the settings; only `OF_LOADING` are used.
        **options: options of sentence-transformers' module ``Transformer``.

    Raises:
        DataError: if the transformer's weights are pickles.
    """
    parts = ("model_kwargs", "processor_kwargs", "config_kwargs")
    options |= {part: {**settings.of_hub(), **options.get(part, {})} for part in parts}
    options["model_kwargs"] |= {**settings.model_kwargs, **_SAFETENSORS}
    with only_safetensors(where):
        return sentence_transformers.base.modules.Transformer(str(where), **options)


def load_weights(
    model_class: Any, where: str | Path, settings: ModelSettings = DEFAULTS, **options: Any
) -> Any:
    """Return the model that ``model_class.from_pretrained`` of transformers loads.

    See `load_model` for errors.

    Args:
        model_class: a class of transformers' models.
        where: a folder, or an id of the Hugging Face Hub.
        settings: the settings; only `OF_LOADING` are used.
        **options: further options of ``from_pretrained``.

    Raises:
        DataError: if the model's weights are pickles.
    """
    options = {**settings.of_hub(), **settings.model_kwargs, **options, **_SAFETENSORS}
    with only_safetensors(where):
        return model_class.from_pretrained(str(where), **options)


def check_weights(folder: Path) -> None:
    """Check by the files' names that no part of a model has its weights in pickles only.

    Args:
        folder: the model's folder; its parts may be in subfolders.

    Raises:
        DataError: if a folder has weights as pickles and no safetensors.
    """
    for path in sorted(folder.rglob("*")):
        # transformers reads these names only; e.g. ``training_args.bin`` holds no weights.
        is_weights = path.suffix in _PICKLED and path.name.startswith(("pytorch_model", "model"))
        if is_weights and not any(path.parent.glob("*.safetensors")):
            raise DataError(
                f"{path} is a pickle, which can run its author's code; expected safetensors: "
                f"{_CONVERSION.format(path, path.with_name('model.safetensors'))}"
            )


@contextmanager
def only_safetensors(where: str | Path, what: str = "a neural system") -> Iterator[None]:
    """Return a context in which libraries load a model from safetensors and refuse pickles.

    If the Hub does not answer, libraries use their cache.

    Args:
        where: the model: a folder, or an id of the Hugging Face Hub.
        what: the feature that needs the libraries, for the message if they are not installed.

    Raises:
        DataError: if the model has weights in another form only.
        MissingExtraError: if torch is not installed.
    """
    if Path(where).is_dir():
        check_weights(Path(where))
    use_cache_if_offline(where, what)
    library: Any = require("torch", "neural", what)

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise DataError(
            f"the weights of {where} are a pickle, which can run its author's code; expected "
            f"safetensors: download it ('hf download {where} --local-dir FOLDER') and, "
            + _CONVERSION.format("FOLDER/pytorch_model.bin", "FOLDER/model.safetensors")
        )

    # Some parts of sentence-transformers' models have no option that forbids pickles. transformers
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
    """Return the errors that libraries raise if a model's files are missing, cut off or wrong."""
    library_errors = (_safetensors.SafetensorError, _hub_errors.StrictDataclassError)
    return (OSError, ValueError, TypeError, RuntimeError, *library_errors)
