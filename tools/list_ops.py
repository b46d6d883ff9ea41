#!/usr/bin/env python3
"""Writes docs/ops.md, the list of all ops, from the comments in include/lockstep/ops and in random.h, fft.h and linalg.h.

  tools/list_ops.py            writes docs/ops.md
  tools/list_ops.py --check    fails if docs/ops.md is not what it would write
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAD = """# The ops

Made by `tools/list_ops.py` from the headers in `include/lockstep/ops` and from `random.h`, `fft.h` and `linalg.h`; edit those. Operands are
`Operand`s (a tensor, a parameter or a number). What holds for all of them:

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

A result of several parts is a struct or a pair: `topk(x, 3).values`, or `const auto [values, indices] = topk(x, 3);`.
Below each table stand its structs with their fields, and the values of its enums. `options = {}` of what makes a tensor:
"""


class Function:
    """One exported function: its comment, result type, name and arguments as written."""

    def __init__(self, comment, declaration):
        self.comment = comment
        match = re.match(r"(?:const )?([\w:<>,&\s]+?)\s*&?\s*(operator\S+|\w+)\((.*)\)$", declaration)
        if not match:
            sys.exit(f"list_ops.py does not understand: {declaration}")
        self.result, self.name, self.arguments = match.groups()

    def call(self, structs):
        """The call as one would write it: the arguments' names, their defaults, and types where these are options."""
        shown = []
        for argument in split_at_commas(self.arguments):
            if not argument or "CallSite" in argument:
                continue
            argument, _, value = (half.strip() for half in argument.partition("="))
            kind = re.search(r"\b(\w+)(?:&|\s)+\w+$", argument)
            kind = f"{kind.group(1)} " if kind and kind.group(1) in structs else ""
            shown.append(kind + argument.split()[-1].lstrip("&*") + (f" = {value}" if value else ""))
        result = "" if self.result in ("Tensor", "void") else f" -> {plain(self.result)}"
        return plain(f"{self.name}({', '.join(shown)}){result}")


class Type:
    """A struct with its fields, or an enum with its values: (declaration, comment) each."""

    def __init__(self, comment, is_struct, name, body):
        self.comment, self.is_struct, self.name = comment, is_struct, name
        self.members = members_of(body, ";" if is_struct else ",")

    def text(self):
        what = f": {' '.join(self.comment)}" if self.comment else ""
        if not self.is_struct and not any(comment for _, comment in self.members):
            return f"**`{self.name}`**{what + ' Values:' if what else ':'} {', '.join(f'`{name}`' for name, _ in self.members)}\n"
        lines = [f"**`{self.name}`**{what}", ""]
        lines += [f"* `{plain(member)}`" + (f": {comment}" if comment else "") for member, comment in self.members]
        return "\n".join(lines) + "\n"


# Headers beside the folder; the ops of the last two stand in namespaces of these names.
MORE_HEADERS = ("random", "fft", "linalg")
NAMESPACES = ("fft", "linalg")


def plain(declaration):
    return declaration.replace("std::nullopt", "none").replace("std::", "")


def split_at_commas(text):
    """The parts between the commas that stand in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += letter in "<({"
        depth -= letter in ">)}"
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def members_of(body, separator):
    """(declaration, comment) of what stands in the braces of a struct (separator ;) or of an enum (separator ,)."""
    members, above, open_member = [], [], ""
    for line in body.splitlines():
        code, _, comment = (part.strip() for part in line.partition("///"))
        comment = comment.lstrip("<").strip()
        if not code:
            if comment and "///<" in line and members:  # a comment behind, which goes on
                members[-1][1] += " " + comment
            elif comment:
                above.append(comment)
            continue
        open_member = f"{open_member} {code}".strip()
        if separator == ";" and not code.endswith(";"):
            continue
        for member in split_at_commas(open_member.rstrip(",")) if separator == "," else [open_member.rstrip(";")]:
            if separator == "," or not re.match(r"[^=]*\(|using |static |friend ", member):  # fields, not functions
                members.append([member, " ".join([*above, comment]).strip()])
        above, open_member = [], ""
    return [tuple(member) for member in members]


def declarations(text):
    """Yields what a header offers, in its order: a Type, or a list of Functions that stand under one comment."""
    comment, group = [], []
    lines = iter(text[text.index("inline namespace"):].splitlines())
    for line in lines:
        stripped = line.strip()
        opened = re.match(r"(struct|enum(?: class)?) (?:LOCKSTEP_API )?(\w+)[^;(]*\{", line)
        if re.match(r"//(/|(?! ---) )", stripped):
            if group:
                yield group
                group, comment = [], []
            comment.append(stripped.lstrip("/").strip())
        elif line.startswith("LOCKSTEP_API") or re.match(r"inline Tensor (?!operator)\w+\(", line):
            declaration = stripped
            while not re.search(r";$|\}$", declaration):
                declaration += " " + next(lines).strip()
            declaration = re.sub(r"^(LOCKSTEP_API|inline) |;$|\s*\{.*\}$", "", declaration)
            group.append(Function(comment if not group else [], declaration))
        else:
            if group:
                yield group
                comment = []
            if opened:
                body = line[opened.end():].removesuffix("};")
                while not line.endswith("};") or line.startswith(" "):  # with a space: an empty initialiser
                    line = next(lines)
                    body += "\n" + line if line != "};" else ""
                yield Type(comment, opened.group(1) == "struct", opened.group(2), body)
            comment, group = [], []


def rows():
    """What kernels/ops.def says of its rows, by name: for declarations that say nothing more."""
    text = (ROOT / "src/kernels/ops.def").read_text()
    return dict(re.findall(r'^ROW\((\w+),.*"([^"]*)"\)$', text, re.MULTILINE))


def intro_of(source):
    return " ".join(line[2:].strip() for line in source[:source.index("#pragma once")].splitlines())


def section(title, source, structs):
    of_row = rows()
    text, types = f"\n## {title}\n{intro_of(source)}\n\n| op | what it is |\n|---|---|\n", ""
    for item in declarations(source):
        if isinstance(item, Type):
            types += "\n" + item.text()
            continue
        table = []  # (calls, what they are); a function without words of its own belongs to those above it
        for function in item:
            if function.name.startswith("operator"):
                continue
            scope = f"{title}::" if title in NAMESPACES else ""
            call = "`" + scope + function.call(structs).replace("|", "\\|") + "`"
            what = " ".join(function.comment) or of_row.get(function.name, "")
            if what or not table:
                table.append(([call], what.replace("|", "\\|")))
            else:
                table[-1][0].append(call)
        text += "".join(f"| {'<br>'.join(calls)} | {what} |\n" for calls, what in table)
    return text + types


def page():
    headers = {path.stem: path.read_text() for path in sorted((ROOT / "include/lockstep/ops").glob("*.h"))}
    for name in MORE_HEADERS:
        headers[name] = (ROOT / f"include/lockstep/{name}.h").read_text()
    of_tensors = (ROOT / "include/lockstep/tensor.h").read_text()
    options = [item for item in declarations(of_tensors) if isinstance(item, Type) and item.name == "TensorOptions"]
    types = [item for source in headers.values() for item in declarations(source) if isinstance(item, Type)]
    structs = {item.name for item in types + options if item.is_struct}
    text = HEAD + "".join("\n" + item.text() for item in options)
    return text + "".join(section(title, headers[title], structs) for title in sorted(headers))


def main():
    target = ROOT / "docs/ops.md"
    if sys.argv[1:] == ["--check"]:
        if not target.exists() or target.read_text() != page():
            sys.exit("docs/ops.md is old: run tools/list_ops.py")
    else:
        target.write_text(page())


if __name__ == "__main__":
    main()
