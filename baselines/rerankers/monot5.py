"""monoT5 (Nogueira et al., Findings of EMNLP 2020): a T5 that generates true or false.

It reranks BM25's passages. Its input is "Query: ... Document: ... Relevant:". The score is the
logit of "true" as the first generated word, minus the logit of "false".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from msshift_bench.baselines.rerankers.reranker import Reranker, load_module
from msshift_bench.baselines.training.backbones import learn_word_pieces, loading
from msshift_bench.encoders import DEFAULTS, ModelSettings, load_weights
from msshift_bench.errors import DataError, UsageError
from msshift_bench.libraries import Library, sentence_transformers, tokenizers, torch, transformers
from msshift_bench.plumbing import replace_folder

_sentencepiece: Any = Library("sentencepiece")

_ANSWERS = ("true", "false")

_SETTINGS = "monot5.json"
"""The file of lengths in the folder of a model that this package saved."""

_LENGTHS = (64, 448)
"""Most tokens of the query's and the document's part without that file; T5 reads 512."""

_PIECES = "spiece.model"


class MonoT5(Reranker):
    """monoT5: a T5 that generates true or false, and reranks BM25.

    The query's part of the prompt has at most `query_length` tokens, the document's part at most
    `passage_length`. In a recipe's table ``[random]``, `initial` is T5's ``initializer_factor``
    (1 in T5), and `matching` must be false.
    """

    name = "monot5"
    module_name = "MonoT5Scorer"

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield (field, problem) for each rule between fields that is broken."""
        yield from super().rules()
        if self.random and self.random.matching:
            yield (
                "random",
                "matching is true; it is a prior for BERT's layers, which a T5 does not have: set "
                "matching = false",
            )

    def new_model(self, encoder: str | Path) -> Any:
        """Return a T5 that has not learnt to rank; see `load_model` for errors."""
        with loading("encoder", encoder):
            scorer = _scorer(encoder, (self.query_length, self.passage_length))
        return sentence_transformers.CrossEncoder(modules=[scorer])

    @classmethod
    def load_model(cls, where: str | Path, settings: ModelSettings = DEFAULTS) -> Any:
        """Return a model from a folder or the Hub: a saved monoT5, or a published T5.

        Raises:
            NotFoundError: if there is no such model, or it cannot be loaded.
            DataError: if its weights are pickles, or its tokenizer is damaged.
            UsageError: if the tokenizer splits "true" or "false".
        """
        del settings
        return load_module(_scorer_class(), where)

    def make_encoder(
        self, texts: Iterable[str], folder: Path, _words: str = "whitespace", /
    ) -> None:
        """Write a T5 with random weights; its vocabulary is word pieces, "true" and "false"."""
        shape = self.random
        assert shape is not None
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=learn_word_pieces(texts, shape.vocabulary),
            pad_token="[PAD]",
            unk_token="[UNK]",
            eos_token="[SEP]",
        )
        tokenizer.add_tokens(
            [tokenizers.AddedToken(answer, single_word=True) for answer in _ANSWERS]
        )
        torch.manual_seed(self.seed)
        model = transformers.T5ForConditionalGeneration(
            transformers.T5Config(
                vocab_size=len(tokenizer),
                d_model=shape.hidden,
                d_kv=shape.hidden // shape.heads,
                d_ff=shape.inner,
                num_layers=shape.layers,
                num_heads=shape.heads,
                dropout_rate=shape.dropout,
                initializer_factor=shape.initial,
                pad_token_id=tokenizer.pad_token_id,
                eos_token_id=tokenizer.eos_token_id,
                decoder_start_token_id=tokenizer.pad_token_id,
            )
        )
        with replace_folder(folder) as partial:
            model.save_pretrained(partial)
            tokenizer.save_pretrained(partial)


def _scorer(where: str | Path, lengths: tuple[int, int]) -> Any:
    return _scorer_class()(
        load_weights(transformers.T5ForConditionalGeneration, where),
        _tokenizer(Path(where)),
        *lengths,
    )


@cache
def _scorer_class() -> Any:
    """Return the class of sentence-transformers' module that scores pairs with a T5."""

    class MonoT5Scorer(sentence_transformers.base.modules.Module):  # type: ignore[misc]
        config_file_name = _SETTINGS
        config_keys: ClassVar[list[str]] = ["query_length", "passage_length"]
        save_in_root = True

        def __init__(
            self, answering: Any, tokenizer: Any, query_length: int, passage_length: int
        ) -> None:
            super().__init__()
            self.answering = answering
            self.tokenizer = tokenizer
            self.query_length = query_length
            self.passage_length = passage_length
            self._answers = [_answer(tokenizer, word) for word in _ANSWERS]
            self._end = [*self._numbers("Relevant:"), tokenizer.eos_token_id]

        def _numbers(self, text: str, length: int | None = None) -> list[int]:
            cut = {"truncation": length is not None, "max_length": length}
            return list(self.tokenizer(text, add_special_tokens=False, **cut).input_ids)

        def preprocess(self, pairs: Any, **_: Any) -> dict[str, Any]:
            # Each part is cut off alone, so that the prompt always ends with "Relevant:".
            rows = [
                self._numbers(f"Query: {query}", self.query_length)
                + self._numbers(f"Document: {passage}", self.passage_length)
                + self._end
                for query, passage in pairs
            ]
            longest = max(map(len, rows))
            padding = self.tokenizer.pad_token_id
            return {
                "input_ids": torch.tensor([row + [padding] * (longest - len(row)) for row in rows]),
                "attention_mask": torch.tensor(
                    [[1] * len(row) + [0] * (longest - len(row)) for row in rows]
                ),
            }

        def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
            numbers = features["input_ids"]
            begin = self.answering.config.decoder_start_token_id
            logits = self.answering(
                input_ids=numbers,
                attention_mask=features["attention_mask"],
                decoder_input_ids=torch.full_like(numbers[:, :1], begin),
            ).logits[:, 0]
            true, false = (logits[:, answer] for answer in self._answers)
            return {**features, "scores": (true - false)[:, None]}

        def save(self, output_path: str, *_: Any, **__: Any) -> None:
            self.answering.save_pretrained(output_path)
            self.tokenizer.save_pretrained(output_path)
            self.save_config(output_path)

        @classmethod
        def load(cls, model_name_or_path: str, subfolder: str = "", **_: Any) -> Any:
            where = Path(model_name_or_path) / subfolder
            if not where.is_dir():
                return _scorer(model_name_or_path, _LENGTHS)
            config = cls.load_config(str(where), local_files_only=True)
            return _scorer(
                where, (config["query_length"], config["passage_length"]) if config else _LENGTHS
            )

    return MonoT5Scorer


def _tokenizer(where: Path) -> Any:
    """Return T5's tokenizer from a folder, or from an id of the Hub.

    Published folders have only SentencePiece's file. It is checked first: transformers reads a
    damaged file as another kind, and an empty file as a vocabulary.

    Raises:
        DataError: if that file is damaged.
    """
    pieces = where / _PIECES
    if pieces.is_file() and not (where / "tokenizer.json").exists():
        try:
            _sentencepiece.SentencePieceProcessor(model_file=str(pieces))
        except RuntimeError as error:
            raise DataError(f"{pieces} is not a SentencePiece model; copy it again") from error
    return transformers.AutoTokenizer.from_pretrained(str(where))


def _answer(tokenizer: Any, word: str) -> int:
    """Return the token id of an answer.

    Raises:
        UsageError: if the answer is not one piece of the vocabulary.
    """
    numbers = tokenizer(word, add_special_tokens=False).input_ids
    if len(numbers) != 1 or numbers[0] == tokenizer.unk_token_id:
        raise UsageError(
            f"{word!r} is not one piece of the tokenizer's vocabulary, and monoT5 generates it; "
            "use T5's own tokenizer"
        )
    return int(numbers[0])
