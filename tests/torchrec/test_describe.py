"""A live module as a model document: what stands in it for each kind of module."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.fbgemm_qcomm_codec import CommType, QCommsConfig, get_qcomm_codecs_registry
from torchrec.distributed.fp_embeddingbag import FeatureProcessedEmbeddingBagCollectionSharder
from torchrec.distributed.planner import ParameterConstraints
from torchrec.modules.embedding_configs import DataType, PoolingType
from torchrec.modules.feature_processor_ import PositionWeightedModuleCollection
from torchrec.modules.fp_embedding_modules import FeatureProcessedEmbeddingBagCollection
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward

from emplace.placement.errors import InvalidDocument, ToolError
from emplace.placement.model import ModelSpec, Optimizer
from emplace.placement.modules import Module
from emplace.torchrec import describe
from tests.torchrec.models import META, Model, collection, config, ids, model, sequence, sequences, sharders

pytestmark = pytest.mark.torch


def _tables(spec: ModelSpec) -> dict[str, tuple[int, int, str, list[str]]]:
    return {
        table.name: (table.num_embeddings, table.embedding_dim, table.data_type.value, [feature.name for feature in table.features])
        for table in spec.tables
    }


def _lengths(spec: ModelSpec) -> list[Any]:
    return [feature.length.model_dump() for table in spec.tables for feature in table.features]


def test_tables_keep_their_names_sizes_types_and_features() -> None:
    tables = [config("user", 5000, 32, ["me", "friends"]), config("page", 70, 16, data_type=DataType.FP16)]
    spec = describe(model(*tables), batch_size=2048)
    assert _tables(spec) == {"user": (5000, 32, "fp32", ["me", "friends"]), "page": (70, 16, "fp16", ["page-ids"])}
    assert (spec.name, spec.local_batch_size, spec.optimizer) == ("Model", 2048, Optimizer.SGD)
    assert _lengths(spec) == [{"fixed": 1}] * 3


def test_a_collection_by_itself() -> None:
    assert _tables(describe(collection(config("user")))) == {"user": (1000, 16, "fp32", ["user-ids"])}


def test_names_that_repeat_are_told_apart_by_path() -> None:
    spec = describe(Model(left=collection(config("user"), config("page")), right=collection(config("user", 2000, features=["other"]))))
    assert list(_tables(spec)) == ["sparse:left:user", "page", "sparse:right:user"]


def test_a_feature_that_several_tables_look_up() -> None:
    spec = describe(model(config("user", features=["ids"]), config("page", features=["ids", "own"])))
    assert [_tables(spec)[name][3] for name in ("user", "page")] == [["user:ids"], ["page:ids", "own"]]


def test_what_no_document_can_name_is_spelt_with_dashes() -> None:
    spec = describe(model(config("user/id v2", features=["ids.of user"])))
    assert _tables(spec) == {"user-id-v2": (1000, 16, "fp32", ["ids:of-user"])}


def test_modules_without_a_sharder_are_not_described() -> None:
    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.plain = nn.EmbeddingBag(7, 4, device=META)

    both = Model(ebc=collection(config("user")), other=Other())
    assert list(_tables(describe(both, sharders()))) == ["user"]


@pytest.mark.parametrize(
    ("optimizer", "expected"), [(torch.optim.Adam, "adam"), (torch.optim.SGD, "sgd"), (torch.optim.Adagrad, "adagrad")]
)
def test_the_optimizer_that_runs_in_the_backward(optimizer: type[torch.optim.Optimizer], expected: str) -> None:
    module = model(config("user"))
    apply_optimizer_in_backward(optimizer, module.sparse.parameters(), {"lr": 0.1})
    assert describe(module).optimizer == expected


def test_the_optimizer_of_the_sharder() -> None:
    from fbgemm_gpu.split_embedding_configs import EmbOptimType

    assert describe(model(config("user")), sharders(optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD)).optimizer == "rowwise_adagrad"
    with pytest.raises(InvalidDocument, match=r"the optimizer of table user must be one of sgd, ada.*lamb"):
        describe(model(config("user")), sharders(optimizer=EmbOptimType.LAMB))


def test_of_several_optimizers_the_one_with_most_state() -> None:
    module = model(config("user"), config("page"))
    bags: Any = module.sparse["ebc"]
    apply_optimizer_in_backward(torch.optim.Adam, bags.embedding_bags["page"].parameters(), {"lr": 0.1})
    spec = describe(module)
    assert spec.optimizer == "adam"
    assert "several optimizers" in (spec.description or "")


def _modules(spec: ModelSpec) -> list[dict[str, Any]]:
    """What differs from a module that sums without weights."""
    plain = Module(path="any").to_data()
    return [{key: value for key, value in module.to_data().items() if value != plain.get(key)} for module in spec.modules or ()]


def test_one_module_that_sums_needs_no_name() -> None:
    assert describe(model(config("user"))).modules is None


def test_modules_are_named_by_path_with_what_they_do() -> None:
    spec = describe(
        Model(
            ebc=collection(config("user"), is_weighted=True),
            means=collection(config("page", pooling=PoolingType.MEAN)),
            history=sequences(sequence("clicks", dim=32)),
        ),
        [*sharders(), EmbeddingCollectionSharder(use_index_dedup=True)],
        constraints={"clicks": ParameterConstraints(output_dtype=DataType.FP16, pooling_factors=[40.0])},
    )
    assert _modules(spec) == [
        {"path": "sparse.ebc", "weighted": True},
        {"path": "sparse.means", "pooling": "mean"},
        {"path": "sparse.history", "pooling": "none", "index_dedup": True, "output_data_type": "fp16"},
    ]
    assert [table.module for table in spec.tables] == ["sparse.ebc", "sparse.means", "sparse.history"]
    assert spec.tables[2].constraints.sharding_types == ("table_wise", "row_wise", "data_parallel")


ROWS_SPLIT = {"row_wise", "table_row_wise", "grid_shard"}


def test_rows_of_means_are_split_where_the_constraints_of_all_of_them_say_so() -> None:
    means = collection(config("user", pooling=PoolingType.MEAN), config("page", pooling=PoolingType.MEAN))
    by_row = ParameterConstraints(sharding_types=["row_wise"])
    both, one = (dict.fromkeys(names, by_row) for names in (("user", "page"), ("user",)))
    assert _modules(describe(means, constraints=both)) == [{"path": "ebc", "pooling": "mean", "splits_rows": True}]
    with pytest.raises(InvalidDocument, match="unless those of all tables of the collection are"):
        describe(means, constraints=one)


def test_means_beside_sums_keep_their_rows_whole() -> None:
    spec = describe(model(config("user"), config("page", pooling=PoolingType.MEAN)))
    user, page = (set(table.constraints.sharding_types or ()) & ROWS_SPLIT for table in spec.tables)
    assert user == {"row_wise", "table_row_wise"}
    assert page == set()


def test_a_collection_of_sequences_by_itself() -> None:
    assert _modules(describe(sequences(sequence("clicks")))) == [{"path": "ebc", "pooling": "none"}]


@pytest.mark.parametrize(
    ("columns", "least", "width"),
    [
        (512, {}, 128),  # TorchRec's least, where nothing is asked
        (512, {"a": 100}, 128),
        (512, {"a": 64, "b": 32}, 128),  # c asks for nothing
        (512, {"a": 64, "b": 32, "c": 40}, 64),
        (768, {"a": 200, "b": 200, "c": 200}, 256),
        (512, {"a": 300}, None),
        (128, {}, None),
        (40, {"a": 4, "b": 6, "c": 4}, 8),
    ],
)
def test_pieces_of_sequences_have_one_width(columns: int, least: dict[str, int], width: int | None) -> None:
    given = {name: ParameterConstraints(min_partition=columns) for name, columns in least.items()}
    spec = describe(sequences(*(sequence(name, dim=columns) for name in "abc")), constraints=given)
    [module] = spec.modules or ()
    assert module.column_width == width
    types = {table.constraints.sharding_types for table in spec.tables}
    assert types == {("table_wise", *(["column_wise"] if width else []), "row_wise", "data_parallel")}


def test_a_width_is_only_said_where_columns_may_be_split() -> None:
    given = {name: ParameterConstraints(sharding_types=["row_wise", "table_wise"]) for name in "ab"}
    [module] = describe(sequences(sequence("a", dim=512), sequence("b", dim=512)), constraints=given).modules or ()
    assert module.column_width is None


def _sender(forward: CommType, backward: CommType) -> EmbeddingBagCollectionSharder:
    config = QCommsConfig(forward_precision=forward, backward_precision=backward)
    return EmbeddingBagCollectionSharder(qcomm_codecs_registry=get_qcomm_codecs_registry(config, device=torch.device("cuda")))


@pytest.mark.parametrize(("forward", "backward"), [("fp16", "bf16"), ("fp8", "fp8"), ("fp32", "fp16")])
def test_what_vectors_are_sent_in_is_read_from_the_sharder(forward: str, backward: str) -> None:
    spec = describe(model(config("user")), [_sender(CommType(forward), CommType(backward))])
    assert _modules(spec)[0]["qcomm"] == {"forward_precision": forward, "backward_precision": backward}


def test_codecs_without_a_price_are_refused_by_name() -> None:
    with pytest.raises(InvalidDocument, match="vectors are priced that are sent in fp32, fp16, bf16, fp8"):
        describe(model(config("user")), [_sender(CommType.MX4, CommType.FP16)])


def test_types_that_sequences_do_not_have() -> None:
    given = {"clicks": ParameterConstraints(sharding_types=["column_wise"])}
    with pytest.raises(InvalidDocument, match="Emplace shards tables that are not pooled table_wise, row_wise, data_parallel"):
        describe(sequences(sequence("clicks")), constraints=given)


def test_a_sample_goes_through_sequences_too() -> None:
    class Last(Model):
        def forward(self, ids: Any) -> Any:
            history = self.sparse["history"](ids)["clicks-ids"]
            return super().forward(ids) + history.values()[: ids.stride()].sum()

    module = Last(ebc=collection(config("a")), history=sequences(sequence("clicks")))
    spec = describe(module, sample=ids(["a-ids", "clicks-ids"], 4, each=3))
    assert "takes 1,088 flop an example in a forward, counted" in (spec.description or "")  # 2 (16 x 32 + 32)


def test_pooling_factors_are_lengths() -> None:
    given = {"user": ParameterConstraints(pooling_factors=[20.0, 2.5])}
    assert _lengths(describe(model(config("user", features=["a", "b"])), constraints=given)) == [{"fixed": 20}, {"poisson": 2.5}]


def test_sharders_offer_other_types_on_cpus() -> None:
    [on_gpu], [on_cpu] = (describe(model(config("user")), compute_device=device).tables for device in ("cuda", "cpu"))
    assert on_gpu.constraints.sharding_types is not None
    assert "row_wise" in on_gpu.constraints.sharding_types
    assert "grid_shard" not in on_gpu.constraints.sharding_types
    assert on_cpu.constraints.sharding_types == ("table_wise", "column_wise", "table_column_wise", "data_parallel")
    assert on_cpu.constraints.compute_kernels == ("fused", "dense")


def test_the_dense_part_stands_as_one_hidden_layer() -> None:
    """48 x 32 and 32 x 1 linear layers: 1,601 parameters, 3,136 flop."""
    spec = describe(model(*(config(name) for name in "abc")))
    assert spec.top_mlp == (32, 1)
    assert "1,601 parameters and takes 3,136 flop an example in a forward, assumed" in (spec.description or "")


def test_flops_are_counted_where_a_batch_is_given() -> None:
    class Twice(Model):
        def forward(self, ids: Any) -> Any:
            return super().forward(ids) + super().forward(ids)

    spec = describe(Twice(ebc=collection(config("a"))), sample=ids(["a-ids"], 4, each=3))
    assert "takes 2,176 flop an example in a forward, counted" in (spec.description or "")  # 2 x 2 (16 x 32 + 32)
    assert spec.top_mlp == (64, 1)


def test_a_batch_that_the_module_does_not_take() -> None:
    with pytest.raises(ToolError, match=r"forward failed on the sample batch.*missing"):
        describe(model(config("a")), sample=())
    with pytest.raises(ToolError, match="reached no sharded module, or the batch is empty"):
        describe(model(config("a")), sample=ids(["a-ids"], 0))


def test_a_layer_that_does_not_know_its_shape() -> None:
    module = model(config("a"))
    module.top.append(nn.LazyLinear(3))
    with pytest.raises(ToolError, match=r"the shapes of top.3.weight, top.3.bias are not known yet"):
        describe(module)


def test_modules_that_are_not_known_are_refused_by_name() -> None:
    bags = collection(config("page"), is_weighted=True)
    processed = FeatureProcessedEmbeddingBagCollection(bags, PositionWeightedModuleCollection({"page-ids": 9}, device=META))
    module = Model(ebc=collection(config("user")), processed=processed)
    with pytest.raises(InvalidDocument, match=r"/sparse.processed: Emplace knows EmbeddingBagCollection and EmbeddingCollection"):
        describe(module, [*sharders(), FeatureProcessedEmbeddingBagCollectionSharder()])


def test_nothing_to_shard() -> None:
    with pytest.raises(InvalidDocument, match=r"no module in it has both a sharder and parameters to shard.*Linear"):
        describe(nn.Linear(3, 4, device=META))


def test_a_width_that_emplace_does_not_cut() -> None:
    with pytest.raises(InvalidDocument, match=r"/user/embedding_dim: .*multiple of 4.*10"):
        describe(model(config("user", dim=10)))
