"""The table ``[model]`` of recipes: prompts, dimensions, and how an encoder is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import find_systems, open_system, recipe_files
from msshift_bench.baselines.pretraining_tasks import PretrainingRecipe
from msshift_bench.baselines.systems.recipe import read_recipe
from msshift_bench.errors import UsageError
from msshift_bench.runs import model_path
from tests.baselines.conftest import COLLECTION, MINI, Make
from tests.baselines.test_kinds_of_models import DEPTH, Toy, check_run, library, search_by_hand
from tests.conftest import Command
from tests.support.run_files import sidecar
from tests.support.tiny_encoder import make_tiny_encoder
from tests.support.tiny_recipes import tiny_recipe

GOLDEN = Path(__file__).parent / "golden" / "recipe_digests.json"
PROMPTS = {"query_prompt": "where is ", "document_prompt": "small walls "}


def test_packaged_recipes_have_the_digests_that_they_had_before_models_had_settings() -> None:
    """Runs that were made with them are complete."""
    kinds = {**find_systems(), "pretrain": PretrainingRecipe}
    found = {}
    for file in recipe_files():
        kind = max((name for name in kinds if file.startswith(f"{name}-")), key=len)
        found[file] = read_recipe(kinds[kind], file.removeprefix(f"{kind}-")).digest()
    expected = json.loads(GOLDEN.read_bytes())
    assert {name: found[name] for name in expected} == expected


def test_given_settings_are_in_the_digest(load: Make) -> None:
    plain = load()
    assert "model" not in plain.parameters()
    assert load(model={}).digest() == load(model={"model_kwargs": {}}).digest() == plain.digest()
    prompted = load(model=PROMPTS)
    assert prompted.parameters() == {**plain.parameters(), "model": PROMPTS}
    changed = plain.with_changes({f"model.{name}": PROMPTS[name] for name in PROMPTS})
    assert changed.digest() == prompted.digest()


@pytest.mark.parametrize(
    ("system", "name", "value", "fix"),
    [
        ("bi-encoder", "batch_size", 3, "use search.batch_size, a key of the recipe"),
        ("bi-encoder", "similarity", "cosine", "use normalize, a key of the recipe"),
        ("bi-encoder", "normalize", True, "use normalize, a key of the recipe"),
        ("bi-encoder", "dtype", "float16", "use search_precision, a key of the recipe"),
        ("bi-encoder", "device", "cuda", "a training uses the GPU that torch finds; remove it"),
        ("bi-encoder", "revision", "v1", 'encoder = "random" loads no weights; remove it'),
        ("splade", "truncate_dim", 3, "it is a setting of bi-encoders"),
        ("splade", "normalize", True, "it is a setting of bi-encoders"),
        ("colbert", "truncate_dim", 3, "it is a setting of bi-encoders"),
        ("monobert", "query_prompt", "q: ", "it is a setting of models that encode"),
        ("monobert", "query_length", 9, "use query_length, a key of the recipe"),
        ("monot5", "document_prompt", "d: ", "it is a setting of models that encode"),
        ("knrm", "query_prompt", "q: ", "it is a setting of models that encode"),
    ],
)
def test_settings_that_a_recipe_refuses(
    system: str, name: str, value: Any, fix: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    recipe = tiny_recipe(system)
    path.write_text(f"{recipe}[model]\n{name} = {json.dumps(value)}\n")
    with pytest.raises(UsageError) as caught:
        open_system(system, path)
    line = len(recipe.splitlines()) + 2
    where = f"{path}:{line}: model.{name}: not accepted in a recipe of {system}: "
    assert str(caught.value).startswith(where + fix)


def test_a_setting_that_there_is_not(load: Make) -> None:
    with pytest.raises(UsageError, match=r"model.query_promt: .* did you mean 'query_prompt'"):
        load(model={"query_promt": "q: "})


# ---- trained --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def toy(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    folder = tmp_path_factory.mktemp("bert")
    words = [passage.text for passage in MINI.passages()]
    make_tiny_encoder(folder / "bert", words, length=40, hidden=16)
    return Toy(data, Path(COLLECTION), folder / "bert")


@pytest.mark.neural
@pytest.mark.extended
@pytest.mark.parametrize("system", ["bi-encoder", "splade", "colbert"])
def test_prompts_train_and_search(system: str, toy: Toy, tmp_path: Path, msshift: Command) -> None:
    recipe = tmp_path / "mine.toml"
    search = {"depth": DEPTH, **({"candidates": "all"} if system == "colbert" else {})}
    recipe.write_text(tiny_recipe(system, steps=3, search=search))
    prompts = [f"--set=model.{name}={json.dumps(value)}" for name, value in PROMPTS.items()]
    if system == "bi-encoder":
        prompts.append("--set=model.truncate_dim=5")
    where = "--data", toy.data, "--collection", toy.collection, "--out", tmp_path, "--keep-model"

    def run(*options: str) -> Any:
        given = "--recipe", recipe, "--held-out", "short", *where, *options
        return msshift("run", system, *given)

    for options in (("--name", "plain"), ("--name", "prompted", *prompts)):
        done = run(*options)
        assert done.returncode == 0, done.stderr
    plain, prompted = (
        tmp_path / name / "length" / "short.run.gz" for name in ("plain", "prompted")
    )
    digests = [sidecar(path)["training"]["weights_sha256"] for path in (plain, prompted)]
    assert digests[0] != digests[1]
    initial = {sidecar(path)["training"]["initial_weights_sha256"] for path in (plain, prompted)}
    assert len(initial) == 1
    shown = sidecar(prompted)["parameters"]["model"]
    assert shown == PROMPTS | ({"truncate_dim": 5} if system == "bi-encoder" else {})
    # The saved model has the prompts: sentence-transformers alone ranks like the run.
    model = getattr(library, find_systems()[system].model_type)(str(model_path(prompted)))
    assert model.prompts == {"query": "where is ", "document": "small walls "}
    if system == "bi-encoder":
        assert model.truncate_dim == 5
    if system != "splade":  # Its pooling is exchanged before it ranks.
        check_run(prompted, search_by_hand(model, toy), tolerance=1e-4)
    other = run("--name", "prompted", "--set=model.query_prompt=who is ", *prompts[1:])
    assert other.returncode == 2
    assert 'query_prompt "where is " instead of "who is"' in other.stderr


@pytest.mark.neural
def test_a_new_model_and_its_trainer_get_the_prompts(load: Make, toy: Toy, tmp_path: Path) -> None:
    columns = ["query", "positive", "negative_1"]
    start = {"encoder": str(toy.bert), "random": None}
    plain, prompted = load(**start), load(**start, model=PROMPTS)
    assert "prompts" not in plain.training_arguments(plain._new_model(tmp_path), columns)
    model = prompted._new_model(tmp_path)
    assert prompted.training_arguments(model, columns)["prompts"] == {
        "query": "where is ",
        "positive": "small walls ",
        "negative_1": "small walls ",
    }


@pytest.mark.neural
def test_the_first_dimensions_of_vectors_of_length_1_are_scaled_again(load: Make, toy: Toy) -> None:
    recipe = load(model={"truncate_dim": 5}, normalize=True, encoder=str(toy.bert), random=None)
    model = recipe.model.set_up(recipe.new_model(toy.bert))
    vectors = recipe.search.encode(model, ["where is it", "old walls"], query=True)
    assert vectors.shape == (2, 5)
    assert (vectors**2).sum(axis=1) == pytest.approx(1)


@pytest.mark.neural
def test_dimensions_that_vectors_do_not_have_are_refused_before_training(load: Make) -> None:
    load(model={"truncate_dim": 16}).check_encoder()
    with pytest.raises(UsageError, match=r"model.truncate_dim must be at most 16, got 17"):
        load(model={"truncate_dim": 17}).check_encoder()


@pytest.mark.neural
def test_settings_load_the_encoder(load: Make, toy: Toy, tmp_path: Path) -> None:
    """A revision of the Hub's cache, options of transformers, and code of a folder."""
    given = {"attn_implementation": "eager"}
    start = {"encoder": str(toy.bert), "random": None}
    eager = load(**start, model={"model_kwargs": given}).new_model(toy.bert)
    assert eager[0].model.config._attn_implementation == "eager"
    folder = tmp_path / "own"
    load(**start).new_model(toy.bert)[0].model.save_pretrained(folder)
    for file in toy.bert.glob("token*"):
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_bytes())
    config["auto_map"] = {"AutoModel": "modeling_own.OwnModel"}
    config["model_type"] = "bert"
    (folder / "config.json").write_text(json.dumps(config))
    code = "from transformers import BertModel\n\n\nclass OwnModel(BertModel):\n    own = True\n"
    (folder / "modeling_own.py").write_text(code)
    own = {"encoder": str(folder), "random": None}
    trusted = load(**own, model={"trust_remote_code": True}).new_model(folder)
    assert type(trusted[0].model).__name__ == "OwnModel"
    assert type(load(**own).new_model(folder)[0].model).__name__ == "BertModel"


def test_the_list_of_fields_has_the_settings_that_a_recipe_takes() -> None:
    of_sides = ["query_prompt", "document_prompt"]
    of_loading = ["revision", "model_kwargs", "trust_remote_code"]
    for system, names in (
        ("bi-encoder", [*of_sides, "truncate_dim", *of_loading]),
        ("splade", [*of_sides, *of_loading]),
        ("monobert", of_loading),
        ("knrm", []),
    ):
        fields = dict(find_systems()[system].defaults())
        assert [name for name in fields if name.startswith("model.")] == [
            f"model.{name}" for name in names
        ]
        assert fields["model"] is None
    with pytest.raises(UsageError, match=r"model.batch_size: .* use search.batch_size, a key"):
        open_system("bi-encoder", changes={"model.batch_size": 3})
