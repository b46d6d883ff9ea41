#!/usr/bin/env python3
"""Circles of includes between the sources of src, where a header, its -inl.h and its .cpp count as one; exits with 1 if there are any.

A circle means that two files have one subject, or that a third one is missing.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent / "src"


def included():
    """What each source includes of src, by name without ending."""
    graph = {}
    for path in sorted(ROOT.rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        unit = str(path.relative_to(ROOT).with_suffix("")).removesuffix("-inl")
        names = [name.removesuffix("-inl") for name in re.findall(r'^#include "([^"]+)\.\w+"', path.read_text(), re.MULTILINE)]
        graph.setdefault(unit, set()).update(name for name in names if name != unit)
    return graph


def circles(graph):
    """Each circle once, as the way that was first found around it."""
    done, way, found = set(), [], []

    def visit(unit):
        way.append(unit)
        for name in sorted(graph.get(unit, ())):
            if name in way:
                found.append(way[way.index(name):] + [name])
            elif name not in done:
                visit(name)
        done.add(way.pop())

    for unit in graph:
        if unit not in done:
            visit(unit)
    return found


def main():
    sys.setrecursionlimit(10_000)
    found = circles(included())
    for circle in found:
        print(" -> ".join(circle))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
