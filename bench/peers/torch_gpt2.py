"""GPT-2 of 124 M parameters as PyTorch code, with random weights: what bench/model_bench.cpp's gpt2_* are held against."""
import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, LAYERS, WORDS, POSITIONS = 768, 12, 12, 50257, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, past=None):
        n, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.out(mixed.permute(0, 2, 1, 3).reshape(n, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """Tokens [1, L] to the logits of the last one. With `past`, keys and values [layers, 2, 1, heads, P, 64] of the tokens
    before, for one token; it does not give back the longer ones, which costs it nothing then."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(WORDS, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids, past=None):
        first = 0 if past is None else past.shape[4]
        x = self.tokens(ids) + self.positions.weight[first:first + ids.shape[1]]
        for i, block in enumerate(self.blocks):
            x = block(x, None if past is None else past[i])
        return F.linear(self.norm(x[:, -1]), self.tokens.weight)


def inputs(length, remembered):
    """What gpt2_prefill (no tokens remembered) and gpt2_decode call it with."""
    ids = torch.randint(WORDS, (1, length))
    return [ids, torch.randn(LAYERS, 2, 1, HEADS, remembered, WIDTH // HEADS)] if remembered else [ids]
