"""Base of the rerankers that compare words: words, word vectors, and saved models.

They follow Capreolus (Yates et al., WSDM 2020). The input of the network is the numbers of a text's
content words, cut off or padded to fixed lengths; its output is a score. Unlike in Capreolus,
padding never counts, as in the papers.

Word vectors are learnt from the collection, or read from a file. Learnt vectors are the factors of
the words' positive pointwise mutual information in the collection's passages. The method, with
smoothed contexts and symmetric factors, is from Levy, Goldberg and Dagan, TACL 2015.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from pydantic import PositiveInt

from msshift_bench.baselines.rerankers.reranker import Reranker, load_module
from msshift_bench.baselines.systems.finding import loading_error
from msshift_bench.baselines.systems.recipe import RANDOM
from msshift_bench.data import sha256_of
from msshift_bench.encoders import DEFAULTS, ModelSettings
from msshift_bench.errors import DataError, FindingLog, NotFoundError
from msshift_bench.libraries import sentence_transformers, torch
from msshift_bench.plumbing import numbered_lines, replace_folder, write_array, write_json
from msshift_bench.sampling import keyed_number
from msshift_bench.search import content_words
from msshift_bench.settings import Table

_WORDS = "words"
"""The folder of a saved model's word table, and the name of its file of settings."""

_KEPT_TEXTS = 200_000
"""Most texts whose word numbers are kept in memory, for candidates of several queries."""

_TABLE, _VECTORS = "words.json", "vectors.npy"
"""The files of a word table, in its folder."""

COLLECTION = "collection"
"""The value of `Recipe.encoder` for vectors that are learnt from the collection's passages."""

_SMOOTHED = 0.75
"""The exponent of the counts of contexts (Levy et al., 2015, section 3.1)."""

_UNKNOWN = 0.5
"""The standard deviation of random vectors for words without a vector, as in Capreolus."""

_PAIRS = 4_000_000
"""Most pairs of words that are counted at a time."""

_Vectors = npt.NDArray[np.float32]


class WordVectors(Table):
    """The words of a reranker, and how their vectors are learnt.

    Attributes:
        vocabulary: number of the collection's most frequent words that have a vector. Other words
            match only themselves.
        dimensions: dimensions of a learnt vector; a file of vectors has its own.
        window: most words from a word to its neighbour, for counting neighbours.
    """

    vocabulary: PositiveInt
    dimensions: PositiveInt
    window: PositiveInt


@dataclass(frozen=True, slots=True)
class WordTable:
    """The words of a collection with their vectors.

    Attributes:
        words: the words, the most frequent first.
        frequencies: the number of passages with each word, in the order of `words`.
        passages: the number of the collection's passages.
        vectors: 32-bit floats of shape (words + 1, dimensions). Row 0 is zero; row i + 1 belongs to
            ``words[i]``.
        division: how texts are divided into words (`msshift_bench.words.WORDS`).
    """

    words: Sequence[str]
    frequencies: Sequence[int]
    passages: int
    vectors: _Vectors
    division: str = "whitespace"

    def inverse_frequencies(self) -> dict[str, float]:
        """Return word -> ln((passages + 1) / (frequency + 1)), 0 or more."""
        logarithms = np.log((self.passages + 1) / (np.array(self.frequencies) + 1))
        return dict(zip(self.words, logarithms.tolist(), strict=True))

    @property
    def inverse_frequency_of_others(self) -> float:
        """The inverse frequency of words that are not in the table: ln(passages + 1)."""
        return float(np.log(self.passages + 1))

    def save(self, folder: Path) -> None:
        """Write the table into a folder, which appears only when it is complete."""
        with replace_folder(folder) as partial:
            write_array(partial / _VECTORS, self.vectors)
            write_json(
                partial / _TABLE,
                {
                    "words": list(self.words),
                    "frequencies": list(self.frequencies),
                    "passages": self.passages,
                    "division": self.division,
                },
            )

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Return the table from a folder that `save` wrote."""
        kept: Mapping[str, Any] = json.loads((folder / _TABLE).read_bytes())
        return cls(vectors=np.load(folder / _VECTORS), **kept)


def make_word_table(
    texts: Iterable[str],
    settings: WordVectors,
    source: str,
    *,
    seed: int,
    division: str = "whitespace",
) -> WordTable:
    """Return the most frequent words of a collection with their vectors.

    Args:
        texts: the passages.
        settings: the number of words, and how vectors are learnt.
        source: `COLLECTION`, or a file of vectors, plain or compressed. Each line has a word and
            its numbers; word2vec's first line may come before.
        seed: the seed of random vectors, for words whose vector is missing or zero.
        division: how texts are divided into words (`WORDS`).

    Raises:
        NotFoundError: if there is no such file.
        DataError: if the passages have no words, a line of the file is malformed, or no word has a
            vector.
    """
    numbers: dict[str, int] = {}
    flat, ends = array("i"), array("q")
    for text in texts:
        flat.extend(
            numbers.setdefault(word, len(numbers)) for word in content_words(text, division)
        )
        ends.append(len(flat))
    if not numbers:
        raise DataError(
            "the passages have no words to learn vectors for: give a collection with words, or "
            "check how the data set divides texts into words"
        )
    occurrences = np.frombuffer(flat, np.int32)
    passage_of = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    frequencies = np.bincount(
        np.unique(np.stack([passage_of, occurrences]), axis=1)[1], minlength=len(numbers)
    )
    known = list(numbers)
    order = sorted(range(len(known)), key=lambda n: (-int(frequencies[n]), known[n]))
    chosen = order[: settings.vocabulary]
    words = [known[number] for number in chosen]
    if source == COLLECTION:
        place = np.full(len(known), -1, np.int64)
        place[chosen] = np.arange(len(chosen))
        vectors = _factors(
            _neighbours(place[occurrences], passage_of, len(words), settings.window),
            settings.dimensions,
        )
    else:
        vectors = _from_file(find_vectors(source), words)
    drawn = np.random.default_rng(seed).normal(0, _UNKNOWN, vectors.shape).astype(np.float32)
    vectors = np.where(vectors.any(axis=1, keepdims=True), vectors, drawn)
    return WordTable(
        words,
        [int(frequencies[number]) for number in chosen],
        len(ends),
        np.concatenate([np.zeros((1, vectors.shape[1]), np.float32), vectors]),
        division,
    )


def _neighbours(
    words: npt.NDArray[np.int64], passage_of: npt.NDArray[np.int64], size: int, window: int
) -> Any:
    """Return how often two words are at most `window` words apart, a sparse symmetric matrix.

    `words` has the row of each word of the collection, in order; -1 is no row.
    """
    from scipy.sparse import coo_array, csr_array

    counts = csr_array((size, size), dtype=np.float64)
    for apart in range(1, window + 1):
        for first in range(0, len(words) - apart, _PAIRS):
            last = min(first + _PAIRS, len(words) - apart)
            left, right = words[first:last], words[first + apart : last + apart]
            together = passage_of[first:last] == passage_of[first + apart : last + apart]
            used = (left >= 0) & (right >= 0) & together
            ones = np.ones(int(used.sum()))
            counts += coo_array((ones, (left[used], right[used])), shape=(size, size)).tocsr()
    return (counts + counts.T).tocoo()


def _factors(counts: Any, dimensions: int) -> _Vectors:
    """Return the factors of the words' positive pointwise mutual information.

    The shape is (words, dimensions); columns beyond the rank of the matrix are 0.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.linalg import svds

    size = counts.shape[0]
    factors = np.zeros((size, dimensions), np.float32)
    rank = min(dimensions, size - 1)
    if rank < 1 or counts.nnz == 0:
        return factors
    rows = np.asarray(counts.sum(axis=1)).ravel()
    contexts = rows**_SMOOTHED
    row, column = counts.coords
    expected = rows[row] * contexts[column] / contexts.sum()
    positive = np.maximum(0, np.log(counts.data / expected))
    matrix = coo_array((positive, (row, column)), shape=counts.shape).tocsr()
    left, values, _ = svds(matrix, k=rank, v0=np.random.default_rng(0).standard_normal(size))
    factors[:, :rank] = left * np.sqrt(values)
    return factors


def find_vectors(source: str) -> Path:
    """Return the path of a file of word vectors, checked to exist.

    Raises:
        NotFoundError: if there is no such file.
    """
    path = Path(source).expanduser()
    if not path.is_file():
        raise NotFoundError(
            f"no word vectors {source}: there is no such file; give one in the format of GloVe or "
            f'word2vec (text), or encoder = "{COLLECTION}"'
        )
    return path


def _from_file(path: Path, words: Sequence[str]) -> _Vectors:
    """Return the vectors of words from a file, shape (words, dimensions); 0 for missing words.

    A malformed line, or a file with none of the words, is a DataError.
    """
    place = {word: number for number, word in enumerate(words)}
    vectors: _Vectors | None = None
    missing = set(words)
    for number, word, values in _lines(path):
        if word not in missing or (vectors is not None and len(values) > vectors.shape[1]):
            continue  # Some of GloVe's words contain a space.
        try:
            vector = np.array(values, np.float32)
        except ValueError:
            raise DataError(
                f"{path}:{number}: {word!r} is not followed by numbers only; give a file of word "
                "vectors"
            ) from None
        if not len(vector):
            raise DataError(
                f"{path}:{number}: {word!r} is followed by no number; give a file of word vectors"
            )
        if vectors is None:
            vectors = np.zeros((len(words), len(vector)), np.float32)
        if len(vector) != vectors.shape[1] or not np.isfinite(vector).all():
            raise DataError(
                f"{path}:{number}: {word!r} must have {vectors.shape[1]} finite numbers, like the "
                f"first word, got {int(np.isfinite(vector).sum())}; correct or remove the line"
            )
        vectors[place[word]] = vector
        missing.remove(word)
    if vectors is None:
        raise DataError(
            f"{path} has a vector for none of the collection's {len(words)} words; give word "
            "vectors of the same language"
        )
    return vectors


def _lines(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the line number, the word and its numbers as text, without word2vec's first line."""
    findings = FindingLog()
    for number, line in numbered_lines(path, findings):
        word, *values = line.rstrip().split(" ")
        if not (number == 1 and len(values) == 1 and word.isdecimal()):
            yield number, word, values
    findings.stop_if_any(DataError, f"{path} is not a file of word vectors:")


class WordReranker(Reranker):
    """A reranker with a network on the words of a query and a passage.

    With `encoder` = ``collection``, word vectors are learnt from the passages. Otherwise, `encoder`
    is a file of word vectors in the format of GloVe or word2vec (text). Lengths are in content
    words: stop words and single letters are left out.

    Attributes:
        words: the words with vectors, and how vectors are learnt.
    """

    words: WordVectors

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield (field, problem) for each rule between fields that is broken."""
        yield from super().rules()
        if self.encoder == RANDOM:
            yield (
                "encoder",
                f"it is {RANDOM!r}; word vectors are learnt or read: use {COLLECTION!r}, or the "
                "path of a file of word vectors",
            )

    @abstractmethod
    def network(self, vectors: Any) -> Any:
        """Return the untrained network, a torch module.

        Its inputs are the numbers of the queries' and the passages' words, and the query words'
        inverse frequencies. The integers have the shapes (pairs, `query_length`) and (pairs,
        `passage_length`). 0 is padding; a word without a vector has a number below 0. Its output
        is one score per pair, shape (pairs,).

        Args:
            vectors: a float tensor of shape (words + 1, dimensions); its first row is zero.
        """

    def new_model(self, encoder: str | Path) -> Any:
        """Return an untrained model with the word table in a folder that `make_encoder` wrote."""
        table = WordTable.load(Path(encoder))
        torch.manual_seed(self.seed)
        return sentence_transformers.CrossEncoder(modules=[_scorer_class(type(self))(self, table)])

    @classmethod
    def load_model(cls, where: str | Path, settings: ModelSettings = DEFAULTS) -> Any:
        """Return a model from a folder that `msshift run --keep-model` wrote.

        Args:
            where: the folder.
            settings: not used.

        Raises:
            NotFoundError: if the folder has no such model, or the model cannot be loaded.
            DataError: if its weights are a pickle.
        """
        del settings
        if not (Path(where) / f"{_WORDS}.json").is_file():
            error = f"the file {_WORDS}.json of a saved {cls.name} is missing."
            raise loading_error("model", where, ValueError(error))
        return load_module(_scorer_class(cls), where)

    def check_encoder(self) -> None:
        """Check that the file of word vectors exists, if `encoder` names one.

        Raises:
            NotFoundError: if it does not exist.
        """
        if self.encoder != COLLECTION:
            find_vectors(self.encoder)

    def makes_encoder(self) -> bool:
        """Return `True`: the word table depends on the collection."""
        return True

    def make_encoder(
        self, texts: Iterable[str], folder: Path, words: str = "whitespace", /
    ) -> None:
        """Write the word table, instead of an encoder; see `make_word_table` for errors."""
        table = make_word_table(texts, self.words, self.encoder, seed=self.seed, division=words)
        table.save(folder)

    def initial_encoder_facts(self) -> Mapping[str, object] | None:
        """Return the SHA-256 of the file of word vectors; `None` without such a file."""
        file = Path(self.encoder).expanduser()
        if self.encoder == COLLECTION or not file.is_file():
            return super().initial_encoder_facts()
        return {
            "file_sha256": _digest(file.resolve(), file.stat().st_mtime_ns),
            "seen": "what its word vectors were learnt from is not recorded",
        }


@cache
def _digest(file: Path, _changed: int) -> str:
    return sha256_of(file)


@cache
def _scorer_class(architecture: type[WordReranker]) -> Any:
    """Return the class of sentence-transformers' module that scores pairs with a network."""

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
                words = content_words(text, table.division)[:length]
                padding = [0] * (length - len(words))
                ids = [numbers.get(word) or _number_of_unknown(word) for word in words]
                return ids + padding, [inverse.get(word, others) for word in words] + padding

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
            values = cls.load_config(str(folder), local_files_only=True)["recipe"]
            recipe = architecture.model_validate(values)
            model = cls(recipe, WordTable.load(folder / _WORDS))
            cls.load_torch_weights(str(folder), model=model, local_files_only=True)
            return model

    Scorer.__name__ = architecture.module_name
    return Scorer


def _number_of_unknown(word: str) -> int:
    """Return a number below 0 that depends on the word alone."""
    return -1 - keyed_number(word, size=7)


def word_similarities(embedding: Any, query: Any, passage: Any) -> Any:
    """Return the cosines of each query word with each passage word, in 32 bits.

    The cosine of a word without a vector is 1 with itself and 0 with other words. The cosine of
    padding is 0 with all words.

    Args:
        embedding: torch's ``Embedding`` of the vectors.
        query: the numbers of words, integers of shape (pairs, query words).
        passage: the numbers of words, integers of shape (pairs, passage words).

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
