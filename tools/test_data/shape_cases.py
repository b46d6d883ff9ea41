"""Cases of shape ops, pools, windows and images; cases.py describes the files."""
import torch
import torch.nn.functional as F

from . import cases as c

F32, F16, BF16, F64, INF, NAN = c.F32, c.F16, c.BF16, c.F64, c.INF, c.NAN


def write_shapes(case):
    """Everything here moves elements and computes nothing."""
    x = c.normal(2, 3, 4, seed="shape")

    def move(name, op, attrs, run, x=x, outputs=1):
        names = ("output",) if outputs == 1 else tuple(f"output{i}" for i in range(outputs))
        case(f"{op}_{name}", op, {"input": x}, attrs, run, exact=True, outputs=names)

    ones = c.normal(1, 3, 1, 2, 1, seed="ones")
    move("all", "squeeze", {}, torch.squeeze, ones)
    move("several", "squeeze", {"dim": [0, 1, -1]}, lambda x, dim: torch.squeeze(x, tuple(dim)), ones)
    move("middle", "unflatten", {"dim": 1, "sizes": [2, -1]}, lambda x, dim, sizes: x.unflatten(dim, sizes),
         c.normal(2, 6, 3, seed="unflatten"))
    move("several", "movedim", {"source": [0, -1], "destination": [-1, 0]}, torch.movedim)
    move("last_to_first", "movedim", {"source": [2], "destination": [0]}, torch.movedim)
    move("negative", "swapaxes", {"axis0": 0, "axis1": -1}, torch.swapaxes)

    long = c.small_integers(7, 3, seed="split", dtype=torch.int64)
    move("size", "split", {"split_size_or_sections": 3, "dim": 0}, torch.split, long, 3)
    move("sizes", "split", {"split_size_or_sections": [1, 0, 6], "dim": 0}, torch.split, long, 3)
    move("uneven", "chunk", {"chunks": 3, "dim": 0}, torch.chunk, long, 3)
    move("fewer", "chunk", {"chunks": 5, "dim": 0}, torch.chunk, long, 4)
    move("sections", "tensor_split", {"sections": 3, "dim": 0}, torch.tensor_split, long, 3)
    move("positions", "tensor_split", {"indices": [2, 5, 1, -1], "dim": 0}, torch.tensor_split, long, 5)
    move("middle", "unbind", {"dim": 1}, torch.unbind, long, 3)

    move("more_dims", "repeat", {"repeats": [2, 1, 3, 2]}, lambda x, repeats: x.repeat(*repeats))
    move("none", "repeat", {"repeats": [1, 0, 2]}, lambda x, repeats: x.repeat(*repeats))
    move("fewer_dims", "tile", {"dims": [3, 2]}, torch.tile)
    move("dim", "repeat_interleave", {"repeats": 3, "dim": 1}, torch.repeat_interleave)
    move("flat", "repeat_interleave", {"repeats": 2}, torch.repeat_interleave)
    counts = c.tensor([2, 0, 3], torch.int64)
    case("repeat_interleave_counts", "repeat_interleave", {"input": x, "repeats": counts}, {"dim": 1},
         torch.repeat_interleave, exact=True)
    case("repeat_interleave_counts_vector", "repeat_interleave",
         {"input": c.normal(3, seed="counts"), "repeats": counts}, {}, torch.repeat_interleave, exact=True)

    move("flat", "roll", {"shifts": [5]}, torch.roll)
    move("several", "roll", {"shifts": [-1, 5], "dims": [1, 2]}, torch.roll)
    move("twice", "roll", {"shifts": [1, 1], "dims": [2, 2]}, torch.roll)
    for k in (1, 2, -1):
        move(f"{k}".replace("-", "minus_"), "rot90", {"k": k, "dims": [2, 0]}, torch.rot90)
    move("3d", "fliplr", {}, torch.fliplr)
    move("3d", "flipud", {}, torch.flipud)

    for mode in ("reflect", "replicate", "circular"):
        move(f"{mode}_1d", "pad", {"pad": [3, 2], "mode": mode}, F.pad)
        move(f"{mode}_2d", "pad", {"pad": [1, 2, 2, 0], "mode": mode}, F.pad, c.normal(1, 2, 3, 4, seed="pad"))
        move(f"{mode}_3d", "pad", {"pad": [1, 0, 2, 1, 1, 1], "mode": mode}, F.pad, c.normal(1, 2, 3, 4, 2, seed="pad"))
    move("replicate_far", "pad", {"pad": [9, 5], "mode": "replicate"}, F.pad)
    move("circular_crop", "pad", {"pad": [-1, 2], "mode": "circular"}, F.pad)
    move("replicate_f16", "pad", {"pad": [1, 1], "mode": "replicate"}, F.pad, x.to(F16))

    move("step_2", "tensor_unfold", {"dimension": -1, "size": 3, "step": 2}, lambda x, **a: x.unfold(**a),
         c.normal(2, 8, seed="unfold"))
    move("middle", "tensor_unfold", {"dimension": 1, "size": 2, "step": 1}, lambda x, **a: x.unfold(**a))

    image = c.normal(2, 8, 2, 3, seed="shuffle")
    move("batch", "pixel_shuffle", {"upscale_factor": 2}, F.pixel_shuffle, image)
    move("batch", "pixel_unshuffle", {"downscale_factor": 3}, F.pixel_unshuffle, c.normal(2, 2, 6, 3, seed="unshuffle"))
    move("image", "channel_shuffle", {"groups": 4}, F.channel_shuffle, image)

    square = c.normal(3, 4, 5, seed="diagonal")
    for offset in (0, 2, -1, 7, -9):
        word = f"{offset}".replace("-", "minus_")
        move(f"offset_{word}", "diagonal", {"offset": offset, "dim1": 2, "dim2": 0}, torch.diagonal, square)
    move("matrix", "diag", {"diagonal": -1}, torch.diag, square[0].contiguous())
    move("vector", "diag", {"diagonal": 2}, torch.diag, square[0, 0].contiguous())
    for offset in (0, 1, -2):
        word = f"{offset}".replace("-", "minus_")
        move(f"offset_{word}", "diag_embed", {"offset": offset, "dim1": 0, "dim2": -2}, torch.diag_embed, square[0])

    y = c.normal(2, 3, 4, seed="joined")
    for op in ("hstack", "vstack", "dstack", "column_stack"):
        case(f"{op}_3d", op, {"a": x, "b": y}, {}, lambda *t, op=op: getattr(torch, op)(t), exact=True)
        case(f"{op}_vectors", op, {"a": x[0, 0], "b": y[1, 1]}, {}, lambda *t, op=op: getattr(torch, op)(t), exact=True)
    case("broadcast_tensors_two", "broadcast_tensors", {"a": x[:1, :, :1].contiguous(), "b": y[1]}, {},
         torch.broadcast_tensors, exact=True, outputs=("a_out", "b_out"))


def write_windows(case):
    x = c.normal(2, 3, 7, 6, seed="windows")
    for name, attrs in (("stride_dilation", {"kernel_size": [2, 3], "dilation": [2, 1], "padding": [1, 2], "stride": [2, 1]}),
                        ("square", {"kernel_size": 3, "dilation": 1, "padding": 0, "stride": 2})):
        case(f"unfold_{name}", "unfold", {"input": x}, attrs, F.unfold, exact=True)
        columns = F.unfold(x, **attrs)
        case(f"fold_{name}", "fold", {"input": columns}, {"output_size": [7, 6]} | attrs, F.fold)
    attrs = {"kernel_size": [3, 2], "dilation": 1, "padding": 1, "stride": [1, 3]}
    case("unfold_no_batch", "unfold", {"input": x[0]}, attrs, F.unfold, exact=True)
    case("fold_no_batch", "fold", {"input": F.unfold(x[0], **attrs)}, {"output_size": [7, 6]} | attrs, F.fold)
    case("fold_f16", "fold", {"input": F.unfold(x[:1, :1], 3, 1, 1, 1).to(F16)},
         {"output_size": [7, 6], "kernel_size": 3, "padding": 1}, F.fold)


def write_more_pools(case):
    def pool(name, op, x, indices=True, **attrs):
        attrs |= {"return_indices": True} if indices else {}
        case(f"{op}_{name}", op, {"input": x}, attrs, getattr(F, op), exact=True,
             outputs=("output", "indices") if indices else ("output",))

    line = c.normal(2, 3, 13, seed="pool1")
    volume = c.normal(1, 2, 5, 6, 7, seed="pool3")
    pool("dilation", "max_pool1d", line, kernel_size=3, stride=2, padding=1, dilation=2)
    pool("ceil", "max_pool1d", line, kernel_size=4, stride=3, padding=2, ceil_mode=True)
    pool("no_batch", "max_pool1d", line[0], kernel_size=2)
    pool("padding", "max_pool3d", volume, kernel_size=[2, 3, 2], stride=[2, 1, 3], padding=[1, 1, 0])
    pool("ceil_dilation", "max_pool3d", volume, kernel_size=2, stride=2, dilation=[1, 2, 3], ceil_mode=True)
    low = torch.full((1, 1, 4, 5), -INF)
    low[0, 0, 3, 4] = 1.0
    pool("only_minus_infinity", "max_pool2d", low, kernel_size=3, stride=1, padding=1)
    integers = c.small_integers(1, 2, 5, 5, seed="pooli", dtype=torch.int64)
    pool("i64", "max_pool2d", integers, kernel_size=3, stride=2, padding=1)

    def average(name, op, x, **attrs):
        case(f"{op}_{name}", op, {"input": x}, attrs, getattr(F, op))

    average("ceil_uncounted", "avg_pool1d", line, kernel_size=4, stride=3, padding=2, ceil_mode=True,
            count_include_pad=False)
    average("bf16", "avg_pool1d", line.to(BF16), kernel_size=3)
    average("padding_ceil", "avg_pool3d", volume, kernel_size=[2, 3, 3], stride=2, padding=1, ceil_mode=True)
    average("uncounted", "avg_pool3d", volume, kernel_size=3, stride=[1, 2, 2], padding=1, count_include_pad=False)
    average("divisor", "avg_pool3d", volume, kernel_size=2, divisor_override=3)
    for p in (1.0, 2.0):
        average(f"{p:.0f}", "lp_pool1d", line.abs(), norm_type=p, kernel_size=3, stride=2)
        average(f"{p:.0f}", "lp_pool2d", volume[0].abs(), norm_type=p, kernel_size=[2, 3], ceil_mode=True)
        average(f"{p:.0f}", "lp_pool3d", volume.abs(), norm_type=p, kernel_size=2)

    plane = c.normal(2, 3, 7, 10, seed="pool2")
    for op, x, sizes in (("adaptive_avg_pool1d", line, (1, 5, 13, 20)), ("adaptive_avg_pool2d", plane, ([7, 4], [10, 3])),
                         ("adaptive_avg_pool3d", volume, (2, [3, 6, 4]))):
        for size in sizes:
            word = "x".join(map(str, size)) if isinstance(size, list) else size
            average(f"size_{word}", op, x, output_size=size)
            top = op.replace("avg", "max")
            case(f"{top}_size_{word}", top, {"input": x}, {"output_size": size, "return_indices": True}, getattr(F, top),
                 exact=True, outputs=("output", "indices"))
    for d, x in ((1, line), (2, plane), (3, volume)):
        largest, places = getattr(F, f"max_pool{d}d")(x, 2, return_indices=True)
        case(f"max_unpool{d}d_kernel_2", f"max_unpool{d}d", {"input": largest, "indices": places},
             {"kernel_size": 2, "output_size": list(x.shape[2:])}, getattr(F, f"max_unpool{d}d"), exact=True)
    largest, places = F.max_pool2d(plane[:, :, :6], 2, return_indices=True)
    case("max_unpool2d_inferred", "max_unpool2d", {"input": largest, "indices": places}, {"kernel_size": 2},
         F.max_unpool2d, exact=True)


def write_images(case):
    def resize(name, x, exact=False, **attrs):
        case(f"interpolate_{name}", "interpolate", {"input": x}, attrs, F.interpolate, exact=exact)

    line = c.normal(2, 3, 9, seed="line")
    plane = c.normal(1, 2, 6, 9, seed="plane")
    volume = c.normal(1, 2, 3, 5, 4, seed="volume")
    for mode in ("nearest", "nearest-exact"):
        for name, x in (("1d", line), ("2d", plane), ("3d", volume)):
            word = f"{mode.replace('-', '_')}_{name}"
            resize(f"{word}_up", x, True, scale_factor=2.0, mode=mode)
            resize(f"{word}_down", x, True, size=[3, 4, 3][:x.dim() - 2], mode=mode)
            resize(f"{word}_factor", x, True, scale_factor=1.7, mode=mode)
            resize(f"{word}_recomputed", x, True, scale_factor=1.7, mode=mode, recompute_scale_factor=True)
        resize(f"{mode.replace('-', '_')}_u8", c.small_integers(1, 1, 4, 5, seed="u8", low=0, dtype=torch.uint8), True,
               size=[7, 3], mode=mode)
    for align in (False, True):
        word = "corners" if align else "halves"
        for mode, x in (("linear", line), ("bilinear", plane), ("trilinear", volume), ("bicubic", plane)):
            resize(f"{mode}_{word}_up", x, size=[11, 12, 10][:x.dim() - 2], mode=mode, align_corners=align)
            resize(f"{mode}_{word}_down", x, size=[4, 3, 2][-(x.dim() - 2):], mode=mode, align_corners=align)
            resize(f"{mode}_{word}_factor", x, scale_factor=1.3, mode=mode, align_corners=align)
            resize(f"{mode}_{word}_to_one", x, size=[1] * (x.dim() - 2), mode=mode, align_corners=align)
        for mode in ("bilinear", "bicubic"):
            resize(f"{mode}_{word}_antialias_down", plane, size=[2, 5], mode=mode, align_corners=align, antialias=True)
            resize(f"{mode}_{word}_antialias_up", plane, size=[9, 11], mode=mode, align_corners=align, antialias=True)
            resize(f"{mode}_{word}_antialias_factor", plane, scale_factor=[0.4, 0.7], mode=mode, align_corners=align,
                   antialias=True)
    resize("bilinear_recomputed", plane, scale_factor=[1.4, 0.6], mode="bilinear", recompute_scale_factor=True)
    resize("area_2d", plane, size=[4, 5], mode="area")
    resize("area_1d", line, scale_factor=0.4, mode="area")
    resize("area_3d", volume, size=[2, 3, 2], mode="area")
    resize("bilinear_f16", plane.to(F16), size=[4, 12], mode="bilinear")
    resize("bilinear_f64", plane.to(F64), size=[4, 12], mode="bilinear")
    resize("bicubic_bf16", plane.to(BF16), size=[7, 7], mode="bicubic")

    # Points inside, on the border, outside and far away. None is close to where a mode changes its mind.
    grid = c.normal(1, 4, 5, 2, seed="grid", scale=0.8)
    grid3 = c.normal(1, 2, 3, 4, 3, seed="grid3", scale=0.8)
    for padding in ("zeros", "border", "reflection"):
        for align in (False, True):
            word = f"{padding}_{'corners' if align else 'halves'}"
            for mode in ("bilinear", "nearest", "bicubic"):
                case(f"grid_sample_{mode}_{word}", "grid_sample", {"input": plane, "grid": grid},
                     {"mode": mode, "padding_mode": padding, "align_corners": align}, F.grid_sample)
                if mode != "bicubic":
                    case(f"grid_sample_3d_{mode}_{word}", "grid_sample", {"input": volume, "grid": grid3},
                         {"mode": mode, "padding_mode": padding, "align_corners": align}, F.grid_sample)
    case("grid_sample_batch", "grid_sample", {"input": c.normal(2, 3, 5, 4, seed="gs"), "grid":
         c.normal(2, 3, 3, 2, seed="gsg", scale=0.6)}, {"mode": "bilinear", "padding_mode": "zeros",
                                                        "align_corners": False}, F.grid_sample)
    for align in (False, True):
        word = "corners" if align else "halves"
        case(f"affine_grid_2d_{word}", "affine_grid", {"theta": c.normal(2, 2, 3, seed="theta")},
             {"size": [2, 1, 4, 5], "align_corners": align}, F.affine_grid)
        case(f"affine_grid_3d_{word}", "affine_grid", {"theta": c.normal(1, 3, 4, seed="theta3")},
             {"size": [1, 2, 2, 3, 4], "align_corners": align}, F.affine_grid)


def write(case):
    write_shapes(case)
    write_windows(case)
    write_more_pools(case)
    write_images(case)
