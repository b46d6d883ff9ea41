#!/usr/bin/env python3
"""Writes torch_net.rec: what the modules of a small network return in PyTorch, for torch_test.cpp, which has the same one.

    PYTHONPATH=tools python3 tests/agreement/torch_net.py
"""
import os

import torch
from torch import nn

from record_torch import Recorder


def formula(shape, seed):
    """Element i is ((37 i + 11 seed) mod 101 - 50) / 256: exact in f32."""
    count = 1
    for size in shape:
        count *= size
    places = torch.arange(count, dtype=torch.int64)
    return (((37 * places + 11 * seed) % 101 - 50).to(torch.float32) / 256).reshape(shape)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.act = nn.ReLU()
        self.hidden = nn.Linear(144, 8)
        self.out = nn.Linear(8, 5)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(self.act(self.norm(self.conv(x))).flatten(1))))


model = Net().eval()
with torch.no_grad():
    for seed, (name, parameter) in enumerate(model.named_parameters()):
        parameter.copy_(formula(parameter.shape, seed))
    model.norm.running_mean.copy_(formula((4,), 20))
    model.norm.running_var.copy_(formula((4,), 21).abs() + 0.5)
    with Recorder(model, os.path.join(os.path.dirname(__file__), "torch_net.rec")):
        model(formula((3, 2, 8, 8), 30))
