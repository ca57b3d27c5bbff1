"""monoT5: a folder with the published layout scores as T5 does for the complete prompt."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.baselines import open_system
from msshift_bench.baselines.rerankers.monot5 import MonoT5
from msshift_bench.baselines.rerankers.reranker import pair_scores
from msshift_bench.baselines.systems.finding import kind_of_model
from msshift_bench.baselines.training.backbones import quiet_libraries
from msshift_bench.errors import DataError, NotFoundError, UsageError
from msshift_bench.mini.generator import passages

pytestmark = pytest.mark.neural

TEXTS = [passage.text for passage in passages(60)]
PAIRS = [("what is true", TEXTS[0]), ("who", TEXTS[1]), (TEXTS[2], TEXTS[3] * 9)]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a T5 with the files of castorini/monot5-base-msmarco-10k on the Hub.

    That is two JSON files, the weights, converted to safetensors, and a SentencePiece model, here
    learnt from `mini`.
    """
    import tokenizers
    import torch
    import transformers
    from safetensors.torch import save_file

    pytest.importorskip("sentencepiece")
    from sentencepiece import sentencepiece_model_pb2 as protocol

    folder = tmp_path_factory.mktemp("monot5") / "model"
    folder.mkdir()
    learner = tokenizers.Tokenizer(tokenizers.models.Unigram())
    learner.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    learner.train_from_iterator(
        [*TEXTS, *["Query: Document: Relevant: true false"] * 50],
        tokenizers.trainers.UnigramTrainer(
            vocab_size=400, special_tokens=special, unk_token="<unk>", show_progress=False
        ),
    )
    pieces = json.loads(learner.to_str())["model"]["vocab"]
    known = {piece for piece, _ in pieces}
    pieces += [[piece, -1.0] for piece in ("▁true", "▁false") if piece not in known]
    model = protocol.ModelProto()
    kinds = {"<pad>": 3, "</s>": 3, "<unk>": 2}
    for piece, score in pieces:
        model.pieces.add(piece=piece, score=score, type=kinds.get(piece, 1))
    model.trainer_spec.model_type, model.trainer_spec.unk_id = 1, 2
    (folder / "spiece.model").write_bytes(model.SerializeToString())
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer"}')
    torch.manual_seed(3)
    t5 = transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=len(pieces), d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2,
            decoder_start_token_id=0,
        )
    )  # fmt: skip
    t5.config.save_pretrained(folder)
    weights = {name: values.clone() for name, values in t5.state_dict().items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def pieces_of(file: Path) -> list[tuple[str, float]]:
    """Return the pieces of a SentencePiece model, by the library itself."""
    from sentencepiece import SentencePieceProcessor

    model = SentencePieceProcessor(model_file=str(file))
    numbers = range(model.get_piece_size())
    return [(model.id_to_piece(number), model.get_score(number)) for number in numbers]


def test_a_published_folder_scores_as_t5_answers(published: Path, tmp_path: Path) -> None:
    import torch
    import transformers

    with quiet_libraries():
        model = MonoT5.load_model(published)
        tokenizer = transformers.T5Tokenizer(vocab=pieces_of(published / "spiece.model"))
        t5 = transformers.T5ForConditionalGeneration.from_pretrained(str(published)).eval()
    found = pair_scores(model, PAIRS, 2)
    for (query, passage), score in zip(PAIRS[:2], found, strict=False):
        prompt = tokenizer(
            f"Query: {query} Document: {passage} Relevant:", return_tensors="pt"
        ).input_ids
        assert prompt[0, -1] == tokenizer.eos_token_id
        with torch.no_grad():
            logits = t5(input_ids=prompt, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
        true, false = (tokenizer.convert_tokens_to_ids(f"▁{word}") for word in ("true", "false"))
        assert tokenizer.unk_token_id not in (true, false)
        assert score == pytest.approx(float(logits[true] - logits[false]), abs=1e-5)

    # What is too long loses its end, but never the prompt's last word.
    rows = model[0].preprocess(PAIRS)["input_ids"]
    last = tokenizer("Relevant:").input_ids
    assert rows.shape[1] > 500
    assert rows[2].tolist()[-len(last) :] == last

    model.save_pretrained(str(tmp_path / "kept"), create_model_card=False)
    assert kind_of_model(str(tmp_path / "kept")) == "monot5"
    with quiet_libraries():
        again = MonoT5.load_model(tmp_path / "kept")
    kept, loaded = model.state_dict(), again.state_dict()
    assert kept.keys() == loaded.keys()
    assert all(weights.equal(loaded[name]) for name, weights in kept.items())
    # Where weights lie in memory decides the last bit of a sum.
    np.testing.assert_allclose(pair_scores(again, PAIRS, 2), found, rtol=1e-6)


def test_a_recipe_begins_with_random_weights_or_a_folder(published: Path, tmp_path: Path) -> None:
    recipe = open_system("monot5", "mini")
    with quiet_libraries():
        recipe.make_encoder(TEXTS, tmp_path / "start")
        for where in (tmp_path / "start", published):
            model: Any = recipe.new_model(where)
            assert model[0]._answers[0] != model[0]._answers[1]
            assert len(set(pair_scores(model, PAIRS, 4).tolist())) == 3
        with pytest.raises(NotFoundError, match=r"no encoder .*nowhere: "):
            recipe.new_model(tmp_path / "nowhere")


@pytest.mark.parametrize("keep", [0, 9, 100])
def test_a_damaged_file_of_pieces_is_refused(keep: int, published: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(published, tmp_path / "damaged"))
    pieces = folder / "spiece.model"
    pieces.write_bytes(pieces.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"spiece\.model is not a SentencePiece model; copy it ag"):
        MonoT5.load_model(folder)


def test_a_tokenizer_without_the_answers_is_refused(small_encoder: Path) -> None:
    import transformers

    from msshift_bench.baselines.rerankers import monot5

    tokenizer = transformers.AutoTokenizer.from_pretrained(str(small_encoder))
    with pytest.raises(UsageError, match="'true' is not one piece of the tokenizer's vocabulary"):
        monot5._answer(tokenizer, "true")
