#!/usr/bin/env python3
"""Writes docs/ops.md, the list of all ops, from the comments in include/lockstep/ops and linalg.h.

  tools/list_ops.py            writes docs/ops.md
  tools/list_ops.py --check    fails if docs/ops.md is not what it would write
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAD = """# The ops

Made by `tools/list_ops.py` from the headers in `include/lockstep/ops` and from `linalg.h` beside them; edit those. Operands are `Operand`s (a tensor, a
parameter or a number). What holds for all of them:

* Shapes broadcast as in NumPy; dimensions and `dim` arguments may be counted from the end.
* Tensors of one call have one dtype and one device. Other dtypes: `DTypeError` with the cast to write; other devices:
  `DeviceError` with the `to` to write; shapes that do not fit: `ShapeError`; dimensions and indices out of range:
  `IndexError`; other arguments: `ValueError`. Each names the op, its operands and the line of the call.
* Unless said otherwise an op takes every dtype that it has a meaning for: arithmetic on f16, bf16, f32, f64 and the
  integers, functions of real numbers on the floats, logic on bool. f16 and bf16 compute in f32 and round once.
* An op has the name and the meaning of PyTorch's; where that differs by design, [numerics.md](numerics.md) says so.

What an op must have is positional, in PyTorch's order, with its dimensions and parameters; up to two settings may follow,
more of them stand in one options struct at the end: `max_pool2d(x, 3, {.stride = 2})`. One number may stand for a size per
dimension and for a list of one dimension.

Views, slices and indexing are members of `Tensor` (`include/lockstep/tensor.h`); so are the ops that are typed most
(`include/lockstep/tensor_methods.def`): `x.sum(1)` is `sum(x, 1)`.
"""


def declarations(text):
    """Yields (comment lines, declaration) for every exported function, and (comment lines, None) for sections."""
    comment = []
    lines = iter(text.splitlines())
    for line in lines:
        stripped = line.strip()
        if stripped.startswith("///"):
            comment.append(stripped[3:].strip())
        elif stripped.startswith("LOCKSTEP_API"):
            declaration = stripped
            while not declaration.endswith(";"):
                declaration += " " + next(lines).strip()
            yield comment, declaration[len("LOCKSTEP_API "):-1]
            comment = []
        elif not stripped:
            comment = []
        elif stripped.startswith("struct") or stripped.startswith("enum"):
            comment = []


def short(declaration):
    """The call as one would write it: names of the arguments, defaults where they have one."""
    match = re.match(r"(?:const )?([\w:<>&\s]+?)\s*&?\s*(operator\S+|\w+)\((.*)\)$", declaration)
    if not match:
        return None, None
    name, arguments = match.group(2), match.group(3)
    parts, depth, part = [], 0, ""
    for letter in arguments:
        depth += letter in "<({"
        depth -= letter in ">)}"
        if letter == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    parts.append(part)
    shown = []
    for argument in parts:
        argument = argument.strip()
        if not argument or "CallSite" in argument:
            continue
        value = ""
        if "=" in argument:
            argument, value = (half.strip() for half in argument.split("=", 1))
        shown.append(argument.split()[-1].lstrip("&*") + (f" = {value}" if value else ""))
    return name, f"{name}({', '.join(shown)})"


def rows():
    """What kernels/ops.def says of its rows, by name: for declarations that say nothing more."""
    text = (ROOT / "src/kernels/ops.def").read_text()
    return dict(re.findall(r'^ROW\((\w+),.*"([^"]*)"\)$', text, re.MULTILINE))


def page():
    text = HEAD
    of_row = rows()
    api = ROOT / "include/lockstep"
    for header in [*sorted((api / "ops").glob("*.h")), api / "linalg.h"]:
        source = header.read_text()
        intro = []
        for line in source.splitlines():
            if not line.startswith("//"):
                break
            intro.append(line[2:].strip())
        text += f"\n## {header.stem}\n{' '.join(intro)}\n\n| op | what it is |\n|---|---|\n"
        for comment, declaration in declarations(source):
            name, call = short(declaration)
            if name is None or name.startswith("operator"):
                continue
            what = (" ".join(comment) or of_row.get(name, "")).replace("|", "\\|")
            if header.parent == api:
                call = f"{header.stem}::{call}"
            call = call.replace("|", "\\|").replace("std::nullopt", "none")
            text += f"| `{call}` | {what} |\n"
    return text


def main():
    target = ROOT / "docs/ops.md"
    if sys.argv[1:] == ["--check"]:
        if not target.exists() or target.read_text() != page():
            sys.exit("docs/ops.md is old: run tools/list_ops.py")
    else:
        target.write_text(page())


if __name__ == "__main__":
    main()
