"""torch.save files with unusual contents, in the zip format and the legacy one, and contents.json.

contents.json: {"read": [{"files": [names of equal contents], "tensors": {path: {dtype, shape, values}},
"others": {path: value}, "shared": [[paths that share one storage]]}], "refuse": {file: why},
"may_refuse": {file: why}}. A path is the keys and list positions on the way to the value, joined by dots; it is
empty for a tensor that is the whole file. Values are in row-major order; those that JSON lacks are the texts "nan",
"inf" and "-inf". A file of "may_refuse" has its contents in "read" too, should a reader accept it.
"""
import collections
import datetime
import io
import json
import math
import pickle
import zipfile

import torch
import torch.serialization
from torch import nn

from .files import clear


def ramp(*shape, start=0.0, dtype=torch.float32):
    count = math.prod(shape)
    return (torch.arange(count, dtype=torch.float64) * 0.25 + start).reshape(shape).to(dtype)


# ---- contents --------------------------------------------------------------------------------------------------

def tied():
    embedding = ramp(5, 3)
    return {"embedding.weight": embedding, "head.weight": embedding, "first_row": embedding[0],
            "copy": embedding.clone()}


def views():
    base = ramp(4, 6)
    return {"transposed": base.t(), "columns": base[:, 2:5], "strided": base[::2, 1::3], "row": base[3],
            "element": base[2, 4], "expanded": base[0:1].expand(3, 6), "permuted": ramp(2, 3, 4).permute(2, 0, 1),
            "windows": torch.arange(10).unfold(0, 4, 3), "empty_view": base[4:]}


def nested():
    return {
        "epoch": 3, "best": 0.875, "name": "größe", "done": False, "none": None, "negative": -123456789,
        "huge": 2 ** 40, "text": "x" * 300,
        "model": collections.OrderedDict([("conv.weight", ramp(2, 1, 2, 2)), ("conv.bias", ramp(2, start=-1.0))]),
        "optimizer": {"state": {0: {"step": torch.tensor(7.0), "exp_avg": ramp(2, 1, 2, 2, start=5.0)}},
                      "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0, 1]}]},
        "list": [ramp(2), [ramp(1, start=9.0)], ()],
    }


def dtypes():
    values = [0.0, 1.0, -2.0, 3.5]
    out = {str(d).split(".")[1]: torch.tensor(values).to(d)
           for d in (torch.float64, torch.float32, torch.float16, torch.bfloat16)}
    out |= {str(d).split(".")[1]: torch.tensor([0, 1, -2, 100], dtype=d)
            for d in (torch.int64, torch.int32, torch.int16, torch.int8)}
    out |= {"uint8": torch.tensor([0, 1, 200, 255], dtype=torch.uint8), "bool": torch.tensor([True, False, True])}
    out |= {"scalar_f32": torch.tensor(1.5), "scalar_i64": torch.tensor(-(2 ** 62)), "scalar_bool": torch.tensor(True),
            "empty": torch.zeros(0), "empty_2d": torch.zeros(0, 3), "empty_3d": torch.zeros(2, 0, 3, dtype=torch.int64)}
    out["special"] = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 3.0e38])
    out["special_bf16"] = out["special"][:4].bfloat16()
    return out


def module():
    """A state dict with buffers; keys carry the prefix that DataParallel adds."""
    torch.manual_seed(1)
    net = nn.Sequential(collections.OrderedDict([("conv", nn.Conv2d(1, 2, 2, bias=False)), ("bn", nn.BatchNorm2d(2))]))
    return {"state_dict": nn.ModuleDict({"module": net}).state_dict()}


def parameters():
    tensor = ramp(2, 2)
    tensor.requires_grad_(True)
    return {"parameter": nn.Parameter(ramp(3)), "frozen": nn.Parameter(ramp(2, start=4.0), requires_grad=False),
            "needs_grad": tensor, "view": nn.Parameter(ramp(2, 3).t()), "buffer": nn.Buffer(ramp(2, start=8.0))}


def beside_tensors():
    return {"size": torch.Size([2, 3]), "dtype": torch.float16, "device": torch.device("cpu"), "weight": ramp(2, 3)}


READ = {"tied": tied, "views": views, "nested": nested, "dtypes": dtypes, "module": module, "parameters": parameters,
        "beside_tensors": beside_tensors, "one_tensor": lambda: ramp(2, 3), "list": lambda: [ramp(2), ramp(1, 2)],
        "nothing": lambda: {}}


class Prints:
    """Unpickling it as Python does would call print."""

    def __reduce__(self):
        return print, ("this file ran code",)


REFUSE = {
    "calls_print": (lambda: {"weight": ramp(2), "payload": Prints()}, "asks to call builtins.print"),
    "whole_module": (lambda: nn.Linear(2, 1), "names a class, torch.nn.modules.linear.Linear, to build"),
    "date": (lambda: {"when": datetime.date(2020, 1, 2), "weight": ramp(2)}, "asks to build a datetime.date"),
    "complex": (lambda: {"z": torch.tensor([1 + 2j, -1j], dtype=torch.complex128)}, "a complex128 tensor"),
    "sparse": (lambda: {"s": torch.eye(3).to_sparse()}, "a sparse tensor"),
}


# ---- saving ----------------------------------------------------------------------------------------------------

def save_zip(path, contents, **options):
    torch.save(contents, path, **options)


def save_legacy(path, contents):
    """The format of PyTorch before 1.6, with storage keys that count up: PyTorch writes memory addresses there."""
    keys = []

    def in_order_of_use(found):
        keys.extend(found)
        return list(found)

    buffer = io.BytesIO()
    torch.serialization.sorted = in_order_of_use
    try:
        torch.save(contents, buffer, _use_new_zipfile_serialization=False)
    finally:
        del torch.serialization.sorted
    data = buffer.getvalue()
    for number, key in enumerate(keys):
        old, new = (b"X" + len(k).to_bytes(4, "little") + k.encode() for k in (key, str(94000000000000 + number)))
        data = data.replace(old, new)
    path.write_bytes(data)


# ---- describing ------------------------------------------------------------------------------------------------

def plain(value):
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    return value


def describe(contents):
    tensors, others, storages = {}, {}, {}

    def walk(value, path):
        name = ".".join(path)
        if isinstance(value, torch.Tensor):
            tensors[name] = {"dtype": str(value.dtype).split(".")[1], "shape": list(value.shape),
                             "values": [plain(v) for v in value.detach().flatten().tolist()]}
            if value.numel():
                storages.setdefault(value.untyped_storage().data_ptr(), []).append(name)
        elif isinstance(value, dict) or isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                walk(item, [*path, str(key)])
        elif value is None or isinstance(value, (bool, int, float, str)):
            others[name] = plain(value)

    walk(contents, [])
    return {"tensors": tensors, "others": others, "shared": [names for names in storages.values() if len(names) > 1]}


def write(out):
    folder = clear(out / "pickles", "*.pt", "*.json")
    read, refuse = [], {}
    for name, make in READ.items():
        contents = make()
        files = [f"{name}.pt", f"{name}_legacy.pt"]
        save_zip(folder / files[0], contents)
        save_legacy(folder / files[1], contents)
        for file in files:
            loaded = torch.load(folder / file, weights_only=True)
            assert describe(loaded) == describe(contents), f"PyTorch reads {file} differently"
        read.append({"files": files, **describe(contents)})
    # PyTorch's own restricted reader stops at the instructions of protocol 4.
    save_zip(folder / "nested_protocol4.pt", nested(), pickle_protocol=4)
    read[list(READ).index("nested")]["files"].append("nested_protocol4.pt")
    may_refuse = {"nested_protocol4.pt": "pickle protocol 4"}
    for name, (make, why) in REFUSE.items():
        save_zip(folder / f"{name}.pt", make())
        refuse[f"{name}.pt"] = why
    save_legacy(folder / "calls_print_legacy.pt", REFUSE["calls_print"][0]())
    refuse["calls_print_legacy.pt"] = REFUSE["calls_print"][1]

    whole = (folder / "tied.pt").read_bytes()
    legacy = (folder / "tied_legacy.pt").read_bytes()
    broken = {
        "truncated.pt": (whole[:len(whole) // 2], "a zip file without its end"),
        "truncated_legacy.pt": (legacy[:-20], "the last storage is cut short"),
        "truncated_in_pickle_legacy.pt": (legacy[:200], "ends inside a pickle"),
        "empty.pt": (b"", "an empty file"),
        "bare_pickle.pt": (pickle.dumps({"weight": [1, 2]}, 2), "a pickle, but not of torch.save"),
        "zip_of_text.pt": (zip_of_text(), "a zip file without data.pkl"),
    }
    for name, (data, why) in broken.items():
        (folder / name).write_bytes(data)
        refuse[name] = why
    contents = {"read": read, "refuse": refuse, "may_refuse": may_refuse}
    text = json.dumps(contents, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    text = text.replace('{"files":', '\n{"files":').replace('"refuse":{', '\n"refuse":{')
    (folder / "contents.json").write_text(text + "\n", encoding="utf-8")


def zip_of_text():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("notes.txt"), "no tensors here")
    return buffer.getvalue()
