#!/usr/bin/env python3
"""What Doxygen reads instead of a file (docs/reference/Doxyfile). Of a public header it is the same declarations, without what is
noise to a reader, and with what a reader of the header sees and Doxygen would not:

* LOCKSTEP_API, the inline namespace and the CallSite arguments, which nobody passes, are gone.
* The comment on top of the file describes its group, which has all that the file declares and lies in that of its room.
* The rows of *.def stand where they are used: methods of Tensor with the words of the functions, values of enums.
* A function under another one, without words of its own, has those of the other, as in docs/ops.md.
* Text is text: what Doxygen would take for markup or HTML is escaped.

Of a page in Markdown, titles have no code, headings have the names that links use, and code may be bold.

  tools/doxygen_filter.py FILE     writes to the standard output
"""
import pathlib
import re
import sys

import list_ops

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include/lockstep"


def escaped(text):
    """Text of a comment, of which only code in backticks is markup."""
    parts = re.split(r"(`[^`]*`)", text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([\\@<>#&])", r"\\\1", parts[i])
    return re.sub(r"\s*\bPyTorch: ", "\n///\n/// **PyTorch:** ", "".join(parts)) if "PyTorch: " in text else "".join(parts)


def rows_of(macro, name):
    """The arguments of the rows of a .def file, in its order."""
    text = re.sub(r"^//.*$", "", (INCLUDE / name).read_text(), flags=re.MULTILINE)
    rows, start = [], 0
    while (start := text.find(macro + "(", start)) >= 0:
        start += len(macro) + 1
        depth, end = 1, start
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        rows.append(list_ops.split_at_commas(re.sub(r"\s+", " ", text[start:end - 1])))
    return rows


def words_of_functions():
    """(names of the arguments behind the first, comment) of the ops, by name."""
    words = {}
    of_row = list_ops.rows()
    for header in [*sorted((INCLUDE / "ops").glob("*.h")), INCLUDE / "autograd.h"]:
        for group in list_ops.declarations(header.read_text()):
            text = ""
            for function in group if isinstance(group, list) else []:
                names = re.findall(r"(\w+)(?: =[^,]*)?(?:,|$)", ", ".join(
                    part for part in list_ops.split_at_commas(function.arguments)[1:] if "CallSite" not in part))
                text = " ".join(function.comment) or of_row.get(function.name, text)
                words.setdefault(function.name, []).append((names, text))
    return words


def methods():
    """The rows of tensor_methods.def as declarations."""
    words = words_of_functions()
    lines = []
    for result, name, parameters, arguments in rows_of("LOCKSTEP_METHOD", "tensor_methods.def"):
        names = re.findall(r"\w+", arguments)
        candidates = words.get(name, [])
        text = next((text for of, text in candidates if of == names), candidates[0][1] if candidates else "")
        parameters = re.sub(r"LOCKSTEP_OR\(([^()]*(?:\(\))?)\)", r"= \1", parameters[1:-1])
        lines += [f"  /// {escaped(text)}", "  ///", f"  /// The function {name} as a method."]
        lines.append(f"  {result} {name}({parameters}) const;")
    return "\n".join(lines)


def enum_values(macro, name):
    """The rows of dtypes.def or encodings.def as values of an enum."""
    lines = []
    others = rows_of("FLOATS", name) + rows_of("NARROW", name) if name == "encodings.def" else []
    for row in rows_of(macro, name) + others:
        if name == "dtypes.def":
            what = f'"{row[1].strip(chr(34))}", `{row[2]}`, {row[3]} bytes' + ("; storage only" if row[5] == "stored" else "")
        else:
            what = row[-1].strip('"')
        lines.append(f"  {row[0]},  ///< {what}")
    return "\n".join(lines)


def with_rows(text):
    """The places where a .def file is included, by what its rows make there."""
    def replacement(match):
        macro, body, name = match.groups()
        if name == "tensor_methods.def":
            return methods()
        if body.strip() == "+1":
            return f"    + {len(rows_of(macro, name))}"
        return enum_values(macro, name) if body.strip() == "name," else ""
    text = re.sub(r"#define (?:LOCKSTEP_PARAMETERS|LOCKSTEP_OR)\(.*\n|#undef (?:LOCKSTEP_PARAMETERS|LOCKSTEP_OR)\n", "", text)
    text = re.sub(r"#define NARROW\((?:.*\\\n)*.*\n", "", text)  # enum_values has its rows
    text = re.sub(r"^#define (\w+)\([^)]*\)((?:.*\\\n)*.*)\n#include <lockstep/(\w+\.def)>\n#undef \w+$", replacement, text,
                  flags=re.MULTILINE)
    text = re.sub(r"#define LOCKSTEP_DEFINE_ERROR(?:.*\\\n)*.*\n|#undef LOCKSTEP_DEFINE_ERROR\n", "", text)
    return re.sub(r"^LOCKSTEP_DEFINE_ERROR\((\w+)\);\s*///< (.*)$",
                  r"/// \2\nclass \1 : public Error {\n public:\n  using Error::Error;\n};", text, flags=re.MULTILINE)


DECLARATION = r"LOCKSTEP_API |template |struct |class |enum |inline |constexpr |explicit |virtual |static "


def with_words_of_rows(text):
    """Where the header says nothing, what kernels/ops.def says of its rows."""
    of_row = list_ops.rows()

    def words(match):
        said, name = match.group(1), match.group(3)
        return match.group(0) if said or name not in of_row else f"\n/// {of_row[name]}\n{match.group(2)}"
    return re.sub(r"(\n//[^\n]*)?\n(LOCKSTEP_API Tensor (\w+)\()", words, text)


def with_words_of_options(text):
    """A struct of options that has no words of its own."""
    def words(match):
        above, indent, struct = match.groups()
        if above.strip().startswith("///"):
            return match.group()
        return f"{above}\n{indent}/// What may be set, and the defaults: `{{.member = value}}`.\n{indent}{struct}"
    return re.sub(r"^(.*)\n( *)(struct (?:LOCKSTEP_API )?\w+Options(?: :[^{]*)? \{)", words, text, flags=re.MULTILINE)


def with_comments(text):
    """What stands right above a declaration are its words, also with two strokes; functions below it without words share them."""
    lines, out = text.splitlines(), []
    comment, indent, before = [], "", "blank"
    for i, line in enumerate(lines):
        stripped = line.strip()
        if re.match(r"// (?!---)", stripped):
            below = next((other for other in lines[i + 1:] if not other.strip().startswith("//")), "")
            if re.match(rf"\s*(?:{DECLARATION}|Tensor&? .*\(.*;$)", below) and not below.strip().endswith(" detail {"):
                line = line.replace("// ", "/// ", 1)
                stripped = line.strip()
        if re.match(r"///(?!<)", stripped):
            comment = [*comment, stripped] if before == "comment" else [stripped]
            before = "comment"
        elif line == "}" and before == "inside":
            before = "end"
        elif not stripped or stripped.startswith(("//", "}", "#", "struct ", "class ", "enum ")):
            comment, before = [], "blank"
        elif before == "end":
            if comment and re.match(r"LOCKSTEP_API |inline |template ", line):
                out += comment
            before = "inside"
        elif before in ("comment", "blank"):
            before = "inside"
        if before == "inside" and re.search(r"(?:;|\})(?:\s*//.*)?$", stripped) and not line.startswith("  "):
            before = "end"
        elif before == "inside" and re.search(r";(?:\s*//.*)?$", stripped) and line.startswith("    "):
            before = "end"  # the last line of a declaration
        out.append(line)
    return "\n".join(out) + "\n"


def without_noise(text):
    text = re.sub(r"\bLOCKSTEP_API\s+", "", text)
    text = re.sub(r"^inline namespace v0 \{$|^\}  // namespace v0$", "", text, flags=re.MULTILINE)
    text = re.sub(r"(?:,\s*)?\bCallSite (?:call_)?site = \{\}", "", text)
    return re.sub(r"= delete;  // ?", "= delete;  ///< Not there: ", text)


def with_escapes(text):
    def line(match):
        return match.group(1) + escaped(match.group(2))
    return re.sub(r"^((?:.*?\s)?///<?)( .*)$", line, text, flags=re.MULTILINE)


def grouped(text, path):
    name = pathlib.PurePath(str(path).rpartition("/include/lockstep/")[2])
    room = name.parts[0] if len(name.parts) > 1 else {"random.h": "ops", "linalg.h": "ops", "fft.h": "ops"}.get(name.name, name.stem)
    rooms = ("ops", "nn", "optim", "data", "io", "models", "text", "train")
    room = room if room in rooms else "tensor"
    intro = escaped("\n".join(line[2:].strip() for line in text[:text.index("#pragma once")].splitlines()).strip())
    intro = intro.replace("\n/// ", "\n").replace("\n///", "\n")
    head = f"/** \\file lockstep/{name}\n{intro} */\n"
    closing = re.search(r"(?:\}  // namespace \w+\n)+(?=\Z|\n#include)", text)
    if not closing:  # it includes others and has nothing of its own
        return head + text
    # As many namespaces as are closed at the end: others end before.
    count = closing.group().count("\n")
    opening = re.search(rf"^(?:(?:inline )?namespace \w+ \{{\n){{1,{count}}}", text, re.MULTILINE)
    closing = re.search(rf"(?:\}}  // namespace \w+\n){{{opening.group().count(chr(10))}}}(?=\Z|\n#include)", text)
    group = f"{room}_{path.stem}"
    head += f"/** \\defgroup {group} {name}\n\\ingroup {room}\n{intro}\n\n`#include <lockstep/{name}>` */\n"
    return (head + text[:opening.end()] + f"/** \\addtogroup {group}\n@{{ */\n" + text[opening.end():closing.start()] +
            "/** @} */\n" + text[closing.start():])


def markdown(text):
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
    linked = set(re.findall(r"\]\([^)\s]*#([\w-]+)\)", "".join(page.read_text() for page in pages)))

    def heading(match):
        title = match.group(2)
        slug = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        return match.group() + (f" {{#{slug}}}" if slug in linked else "")
    text = re.sub(r"^(##+) (.*)$", heading, text, flags=re.MULTILINE)
    text = re.sub(r"\*\*`([^`]+)`\*\*", r"<b><tt>\1</tt></b>", text)
    return re.sub(r"\A# .*$", lambda match: match.group().replace("`", ""), text, flags=re.MULTILINE)


def main():
    path = pathlib.Path(sys.argv[1]).resolve()
    text = path.read_text()
    if path.suffix == ".md":
        print(markdown(text), end="")
        return
    if path.parent.name == "ops":
        text = with_words_of_rows(text)
    text = with_rows(with_escapes(with_comments(with_words_of_options(text))))
    print(without_noise(grouped(text, path)))


if __name__ == "__main__":
    main()
