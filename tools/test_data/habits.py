"""What PyTorch makes of the lines that tests/graph/habits_test.cpp and tests/nn/habits_test.cpp hold side by side with
ours: each HABIT("...") there is Python, whose last statement is the value. It is read from there, so that a habit stands
in one place, and evaluated with what `given` makes. The line is the name of its value.
"""
import ast
import pathlib
import re

import torch
from torch import nn
import torch.nn.functional as F

from .files import save_safetensors

TESTS = pathlib.Path(__file__).resolve().parent.parent.parent / "tests"
SOURCES = ("graph/habits_test.cpp", "nn/habits_test.cpp")


def given():
    return {"torch": torch, "nn": nn, "F": F,
            "x": torch.arange(6.).reshape(2, 3), "y": torch.tensor([[-1.5, 0.5, 2.], [1., -0.25, 4.]]),
            "v": torch.tensor([1., 2., 3.]), "i": torch.tensor([1, 0])}


def evaluate(line):
    names = given()
    body = ast.parse(line).body
    exec(compile(ast.Module(body[:-1], []), line, "exec"), names)
    return eval(compile(ast.Expression(body[-1].value), line, "eval"), names)


def write(out):
    values = {}
    for source in SOURCES:
        for literals in re.findall(r'\bHABIT\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', (TESTS / source).read_text()):
            line = ast.literal_eval(f"({literals})")
            assert line not in values, line
            values[line] = evaluate(line)
    save_safetensors(out / "habits.safetensors", values, {"format": "lockstep-habits-1"})
