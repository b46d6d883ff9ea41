"""Writing safetensors files byte by byte, so that the order of tensors and metadata is ours."""
import json
import struct

import numpy as np
import torch

NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.uint16: "U16", torch.bool: "BOOL",
}


def tensor_bytes(tensor):
    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.int16)
    return tensor.numpy().tobytes()


def save_safetensors(path, tensors, metadata):
    """Writes {name: tensor or array} in the given order, one after the other without padding."""
    header, chunks, offset = {"__metadata__": metadata}, [], 0
    for name, tensor in tensors.items():
        if isinstance(tensor, np.ndarray):
            tensor = torch.from_numpy(np.array(tensor, order="C"))
        data = tensor_bytes(tensor)
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(data)]}
        chunks.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def clear(folder, *patterns):
    """An existing empty-of-`patterns` folder, so that renamed files leave nothing behind."""
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in patterns:
        for old in folder.glob(pattern):
            old.unlink()
    return folder
