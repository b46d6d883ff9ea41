"""Cases of indexing and sorting."""
import torch

INF, NAN = float("inf"), float("nan")
F64, F32, F16, BF16, I32, I64 = torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64


def normal(*shape, seed, dtype=F32):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=F64).to(dtype)


def places(*shape, seed, size):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, size, shape, generator=generator)


def along(name):
    """The method `name`, which takes the dimension before the tensors."""
    return lambda x, *tensors, dim, **attrs: getattr(x, name)(dim, *tensors, **attrs)


def write_indexing(case):
    x = normal(4, 5, 6, seed=1)
    for dim, size in ((0, 4), (1, 5), (-1, 6)):
        index = places(3, 2, 4, seed=dim + 9, size=size)
        word = str(dim).replace("-", "minus_")
        case(f"gather_dim_{word}", "gather", {"input": x, "index": index}, {"dim": dim}, along("gather"), exact=True)
        case(f"scatter_add_dim_{word}", "scatter_add", {"input": x, "index": index, "src": normal(3, 3, 4, seed=2)},
             {"dim": dim}, along("scatter_add"))
        for mode in ("sum", "prod", "mean", "amax", "amin"):
            for include in (True, False):
                case(f"scatter_reduce_{mode}_dim_{word}_{'with' if include else 'without'}_self", "scatter_reduce",
                     {"input": x, "index": index, "src": normal(3, 3, 4, seed=3)},
                     {"dim": dim, "reduce": mode, "include_self": include},
                     lambda a, i, s, dim, reduce, include_self: a.scatter_reduce(dim, i, s, reduce, include_self=include_self))
    case("gather_f16", "gather", {"input": x.to(F16), "index": places(4, 5, 2, seed=4, size=6)}, {"dim": 2}, along("gather"), exact=True)
    case("gather_i32", "gather", {"input": (x * 9).to(I32), "index": places(4, 5, 2, seed=4, size=6)}, {"dim": 2}, along("gather"))
    case("scatter_set", "scatter", {"input": x, "index": torch.arange(4).view(1, 1, 4).expand(2, 5, 4).contiguous(),
                                    "src": normal(3, 5, 4, seed=6)}, {"dim": 2}, along("scatter"), exact=True)
    case("scatter_value", "scatter", {"input": x, "index": places(4, 2, 3, seed=7, size=6)}, {"dim": 2, "value": 2.5},
         along("scatter"), exact=True)
    case("take", "take", {"input": x, "index": places(2, 7, seed=8, size=120)}, exact=True)
    case("take_along_dim", "take_along_dim", {"input": x, "indices": places(1, 3, 6, seed=8, size=5)}, {"dim": 1}, exact=True)
    case("take_along_all", "take_along_dim", {"input": x, "indices": places(7, seed=8, size=120)}, exact=True)
    case("index_select_last", "index_select", {"input": x, "index": places(9, seed=9, size=6)}, {"dim": -1}, along("index_select"), exact=True)
    index = places(7, seed=10, size=5)
    case("index_add_alpha", "index_add", {"input": x, "index": index, "src": normal(4, 7, 6, seed=11)},
         {"dim": 1, "alpha": 0.5}, along("index_add"))
    case("index_add_f16", "index_add", {"input": x.to(F16), "index": index, "src": normal(4, 7, 6, seed=11, dtype=F16)},
         {"dim": 1}, along("index_add"))
    case("index_copy", "index_copy", {"input": x, "index": torch.tensor([3, 0]), "src": normal(2, 5, 6, seed=12)}, {"dim": 0},
         along("index_copy"), exact=True)
    case("index_fill", "index_fill", {"input": x, "index": torch.tensor([3, 0])}, {"dim": 1, "value": -1.5}, along("index_fill"), exact=True)
    case("embedding_2d_ids", "embedding", {"input": places(3, 2, seed=13, size=8), "weight": normal(8, 5, seed=14)}, exact=True,
         run=torch.nn.functional.embedding)
    case("one_hot", "one_hot", {"input": places(3, 4, seed=15, size=5)}, {"num_classes": 7}, torch.nn.functional.one_hot)
    case("one_hot_counted", "one_hot", {"input": places(9, seed=15, size=5)}, None, torch.nn.functional.one_hot)

    def index_op(values, *indices, skip=0):
        return values[(slice(None),) * skip + indices]

    def index_put(values, source, *indices, skip=0, accumulate=False):
        values = values.clone()
        if not accumulate:
            values[(slice(None),) * skip + indices] = source
            return values
        return values.index_put(tuple(indices), source, accumulate=True)

    rows, columns = torch.tensor([[0, -1], [2, 3]]), torch.tensor([1, -5])
    mask = normal(4, 5, seed=16) > 0
    case("index_one", "index", {"input": x, "i": rows}, None, index_op, exact=True)
    case("index_two_broadcast", "index", {"input": x, "i": rows, "j": columns}, None, index_op, exact=True)
    case("index_inner", "index", {"input": x, "i": rows, "j": columns}, {"skip": 1}, index_op, exact=True)
    case("index_mask", "index", {"input": x, "mask": mask}, None, index_op, exact=True)
    case("index_mask_and_index", "index", {"input": x, "mask": mask, "k": torch.tensor([2])}, None, index_op, exact=True)
    case("index_put_set", "index_put", {"input": x, "values": normal(2, 6, seed=17), "i": torch.tensor([[0], [3]]),
                                        "j": columns}, None, index_put, exact=True)
    case("index_put_inner", "index_put", {"input": x, "values": normal(1, seed=17), "i": columns}, {"skip": 1}, index_put,
         exact=True)
    case("index_put_add", "index_put", {"input": x, "values": normal(2, 2, 6, seed=17), "i": rows, "j": columns},
         {"accumulate": True}, index_put)
    case("index_put_mask", "index_put", {"input": x, "values": torch.tensor(3.0), "mask": mask}, None, index_put, exact=True)
    sparse = torch.tensor([[0.0, 2.0, NAN], [-0.0, 0.0, -1.0]])
    case("nonzero", "nonzero", {"input": sparse}, None, torch.nonzero)
    case("masked_select", "masked_select", {"input": x, "mask": mask[:, :, None]}, exact=True)
    case("masked_scatter", "masked_scatter", {"input": x[..., 0].contiguous(), "mask": mask, "source": normal(4, 6, seed=18)},
         exact=True)


def write_order(case):
    def sort(x, dim=-1, descending=False):
        return torch.sort(x, dim=dim, descending=descending, stable=True)

    special = torch.tensor([1.0, NAN, -INF, 0.0, -0.0, INF, 1.0, NAN, -2.0])
    pairs = ("values", "indices")
    for descending in (False, True):
        word = "descending" if descending else "ascending"
        case(f"sort_special_{word}", "sort", {"input": special}, {"descending": descending}, sort, True, pairs)
        case(f"sort_rows_{word}", "sort", {"input": normal(3, 70, 2, seed=20)}, {"dim": 1, "descending": descending}, sort,
             True, pairs)
        for dtype in (F64, F16, BF16, I32, I64, torch.uint8, torch.int8, torch.bool):
            x = (normal(4, 9, seed=21) * 40).to(dtype) if dtype not in (torch.uint8, torch.bool) else \
                (normal(4, 9, seed=21) * 40).abs().to(dtype)
            case(f"sort_{str(dtype)[6:]}_{word}", "sort", {"input": x}, {"descending": descending}, sort, True, pairs)
    ties = torch.tensor([[3.0, 1.0, 2.0, 0.5], [0.0, -1.0, 5.0, 4.0]])
    for k in (1, 3):
        case(f"topk_{k}", "topk", {"input": ties}, {"k": k}, exact=True, outputs=pairs)
        case(f"topk_smallest_{k}", "topk", {"input": ties}, {"k": k, "largest": False}, exact=True, outputs=pairs)
        case(f"kthvalue_{k}", "kthvalue", {"input": ties}, {"k": k}, exact=True, outputs=pairs)
    case("topk_dim_0", "topk", {"input": normal(9, 4, seed=22)}, {"k": 5, "dim": 0}, exact=True, outputs=pairs)
    case("kthvalue_keepdim", "kthvalue", {"input": normal(9, 4, seed=22)}, {"k": 5, "dim": 0, "keepdim": True}, exact=True,
         outputs=pairs)

    words = torch.tensor([[4, 1, 4], [1, 9, 4]])
    parts = ("values", "inverse", "counts")
    for name, x in (("i64", words), ("f32", words.float()), ("bool", words > 3)):
        case(f"unique_{name}", "unique", {"input": x}, None,
             lambda x: torch.unique(x, return_inverse=True, return_counts=True), outputs=parts)
    case("unique_consecutive", "unique_consecutive", {"input": torch.tensor([1, 1, 4, 4, 1, 2, 2, 2])}, None,
         lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True), outputs=parts)

    edges = torch.tensor([-1.0, 0.0, 0.0, 2.0, 5.0])
    values = torch.tensor([[-2.0, -1.0, 0.0], [1.0, 5.0, 6.0], [NAN, INF, -INF]])
    for right in (False, True):
        side = "right" if right else "left"
        case(f"searchsorted_{side}", "searchsorted", {"sorted_sequence": edges, "input": values}, {"right": right})
        case(f"bucketize_{side}", "bucketize", {"input": values, "boundaries": edges}, {"right": right})
        case(f"searchsorted_rows_{side}", "searchsorted", {
            "sorted_sequence": normal(3, 33, seed=23).sort(dim=1)[0], "input": normal(3, 7, seed=24)}, {"right": right})
    counts = torch.tensor([3, 0, 3, 7, 1])
    case("bincount", "bincount", {"input": counts})
    case("bincount_minlength", "bincount", {"input": counts}, {"minlength": 12})
    case("bincount_weights", "bincount", {"input": counts, "weights": normal(5, seed=25)}, None,
         lambda x, w: torch.bincount(x, w))
    case("histc", "histc", {"input": normal(200, seed=26)}, {"bins": 8, "min": -2.0, "max": 2.0})
    case("histc_own_range", "histc", {"input": normal(50, seed=26)}, {"bins": 5})
