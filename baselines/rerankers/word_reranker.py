"""What the re-rankers that compare words share: the words of a pair, their vectors, saved models.

They are those of Capreolus (Yates et al., WSDM 2020): text becomes the numbers of its content
words, cut off and filled up to fixed lengths, and a network turns them into a score. Unlike there,
places that only fill up count nowhere, as in the papers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from msshift_bench.baselines.rerankers.reranker import Reranker
from msshift_bench.baselines.rerankers.word_vectors import (
    COLLECTION,
    WordTable,
    WordVectors,
    find_vectors,
    make_word_table,
)
from msshift_bench.baselines.systems.finding import not_loaded
from msshift_bench.baselines.systems.recipe import RANDOM
from msshift_bench.baselines.training.backbones import loading
from msshift_bench.data import sha256_of
from msshift_bench.libraries import sentence_transformers, torch
from msshift_bench.sampling import keyed_number
from msshift_bench.search import content_words

_WORDS = "words"
"""The folder of a saved model's words, and the file of its settings."""

_KEPT_TEXTS = 200_000
"""Texts whose words are kept: candidates of several queries are cut into words once."""


class WordReranker(Reranker):
    """A network on the words of a query and a passage.

    Its `encoder` is ``collection``, for word vectors that are learnt from the passages, or a file
    of word vectors in the format of GloVe or word2vec (text). Lengths are in words that say
    something: stop words and single letters are left out.

    Attributes:
        words: the words that it knows, and how vectors are learnt.
    """

    words: WordVectors

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with several fields together."""
        yield from super().rules()
        if self.encoder == RANDOM:
            yield (
                "encoder",
                f"it is {RANDOM!r}; words have vectors that are learnt, encoder = {COLLECTION!r}, "
                "or the path of a file of them",
            )

    @abstractmethod
    def network(self, vectors: Any) -> Any:
        """Return the untrained network.

        It takes the numbers of a batch's words, integers of shapes (pairs, `query_length`) and
        (pairs, `passage_length`), and the query words' inverse frequencies; it gives one score per
        pair. 0 is no word; a word without a vector has a number below 0.

        Args:
            vectors: a float tensor of shape (words + 1, dimensions); its first row is zero.
        """

    def new_model(self, encoder: str | Path) -> Any:
        """Return an untrained network with the words in a folder that `make_encoder` wrote."""
        table = WordTable.load(Path(encoder))
        torch.manual_seed(self.seed)
        return sentence_transformers.CrossEncoder(modules=[_scorer_class(type(self))(self, table)])

    @classmethod
    def load_model(cls, where: str | Path, **options: Any) -> Any:
        """Return a model from a folder that `msshift run --keep-model` wrote.

        Raises:
            NotFoundError: if it is no such folder, or it cannot be loaded.
            DataError: if its weights are a pickle.
        """
        if not (Path(where) / f"{_WORDS}.json").is_file():
            error = ValueError(
                f"{cls.name} is saved with a file {_WORDS}.json, which is not there."
            )
            raise not_loaded("model", where, error)
        with loading("model", where):
            scorer = _scorer_class(cls).load(str(where))
        return sentence_transformers.CrossEncoder(modules=[scorer], **options)

    def check_encoder(self) -> None:
        """Check that the file of vectors is there.

        Raises:
            NotFoundError: if it is not.
        """
        if self.encoder != COLLECTION:
            find_vectors(self.encoder)

    def makes_encoder(self) -> bool:
        """Return that it does: the collection decides which words have vectors."""
        return True

    def make_encoder(self, texts: Iterable[str], folder: Path) -> None:
        """Write the words and their vectors."""
        make_word_table(texts, self.words, self.encoder, seed=self.seed).save(folder)

    def starts_from(self) -> Mapping[str, object] | None:
        """Return the digest of the file of vectors; `None` if they are learnt here."""
        file = Path(self.encoder).expanduser()
        if self.encoder == COLLECTION or not file.is_file():
            return super().starts_from()
        return {
            "file_sha256": _digest(file.resolve(), file.stat().st_mtime_ns),
            "seen": "what its word vectors were learnt from is not recorded",
        }


@cache
def _digest(file: Path, _changed: int) -> str:
    return sha256_of(file)


@cache
def _scorer_class(architecture: type[WordReranker]) -> Any:
    """Return the module of sentence-transformers that scores pairs with a network."""

    class Scorer(sentence_transformers.base.modules.Module):  # type: ignore[misc]
        config_file_name = f"{_WORDS}.json"
        save_in_root = True

        def __init__(self, recipe: Any, table: WordTable) -> None:
            super().__init__()
            self.recipe = recipe
            self.table = table
            self.network = recipe.network(torch.from_numpy(table.vectors.copy()))
            numbers = {word: number for number, word in enumerate(table.words, 1)}
            inverse, others = table.inverse_frequencies(), table.inverse_frequency_of_others

            @lru_cache(_KEPT_TEXTS)
            def cut(text: str, length: int) -> tuple[list[int], list[float]]:
                words = content_words(text)[:length]
                filled = [0] * (length - len(words))
                ids = [numbers.get(word) or _number_of_unknown(word) for word in words]
                return ids + filled, [inverse.get(word, others) for word in words] + filled

            self._cut = cut

        def preprocess(self, pairs: Any, **_: Any) -> dict[str, Any]:
            queries = [self._cut(query, self.recipe.query_length) for query, _ in pairs]
            passages = [self._cut(passage, self.recipe.passage_length)[0] for _, passage in pairs]
            return {
                "query": torch.tensor([numbers for numbers, _ in queries]),
                "passage": torch.tensor(passages),
                "inverse_frequencies": torch.tensor([idf for _, idf in queries]),
            }

        def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
            scores = self.network(
                features["query"], features["passage"], features["inverse_frequencies"]
            )
            return {**features, "scores": scores.view(-1, 1)}

        def get_config_dict(self) -> dict[str, Any]:
            return {"recipe": self.recipe.parameters()}

        def save(self, output_path: str, *_: Any, **options: Any) -> None:
            self.table.save(Path(output_path) / _WORDS)
            self.save_config(output_path)
            self.save_torch_weights(output_path, **options)

        @classmethod
        def load(cls, model_name_or_path: str, subfolder: str = "", **_: Any) -> Any:
            folder = Path(model_name_or_path) / subfolder
            kept = cls.load_config(str(folder), local_files_only=True)["recipe"]
            recipe = architecture.model_validate(kept)
            model = cls(recipe, WordTable.load(folder / _WORDS))
            cls.load_torch_weights(str(folder), model=model, local_files_only=True)
            return model

    Scorer.__name__ = architecture.module_name
    return Scorer


def _number_of_unknown(word: str) -> int:
    """Return a number below 0 that two different words hardly share."""
    return -1 - keyed_number(word, size=7)


def word_similarities(embedding: Any, query: Any, passage: Any) -> Any:
    """Return the cosines of each query word with each passage word, in 32 bits.

    Words without a vector have 1 with themselves and 0 with others, and so have places that hold no
    word with any.

    Args:
        embedding: torch's ``Embedding`` of the vectors.
        query: integers of shape (pairs, query words).
        passage: integers of shape (pairs, passage words).

    Returns:
        A tensor of shape (pairs, query words, passage words), -1 to 1.
    """
    functional = torch.nn.functional
    left, right = (
        functional.normalize(embedding(words.clamp(min=0)).float(), dim=-1)
        for words in (query, passage)
    )
    unknown = (query < 0)[:, :, None] & (query[:, :, None] == passage[:, None, :])
    return left @ right.transpose(1, 2) + unknown
