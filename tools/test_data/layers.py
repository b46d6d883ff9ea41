"""Layers of torch.nn in training mode with random parameters: outputs, and gradients of inputs and parameters.

Evaluated in float64, rounded once to float32. Of a case <c>: <c>/in<i>, <c>/state/<key> (before), <c>/out,
<c>/seed (the output's upstream gradient), <c>/grad_in<i>, <c>/grad/<key>, <c>/after/<key> (buffers that changed).
"""
import zlib

import torch
from torch import nn

from .files import save_safetensors

F64 = torch.float64


def normal(*shape, seed):
    generator = torch.Generator().manual_seed(zlib.crc32(seed.encode()))
    return torch.randn(shape, generator=generator, dtype=F64).float().double()


def flat(result):
    """Everything that a layer returns, one after the other."""
    if isinstance(result, torch.Tensor):
        return result
    parts = []
    for part in result:
        if part is not None:
            parts.append(flat(part).reshape(-1))
    return torch.cat(parts)


class Write:
    def __init__(self):
        self.tensors = {}

    def __call__(self, name, layer, *inputs, call=None):
        layer = layer.double()
        with torch.no_grad():
            for key, parameter in layer.named_parameters():
                # Away from 1 and 0, where a norm's weight or bias would not be seen.
                offset = 1.0 if parameter.dim() == 1 and "norm" in key + type(layer).__name__.lower() and \
                    key.endswith("weight") else 0.0
                parameter.copy_(normal(*parameter.shape, seed=name + key) * 0.4 + offset)
            for key, buffer in layer.named_buffers():
                if buffer.dtype == F64:
                    buffer.copy_(normal(*buffer.shape, seed=name + key).abs() + 0.5)
        keep = self.tensors
        state = {k: v.clone() for k, v in layer.state_dict().items()}
        for key, value in state.items():
            keep[f"{name}/state/{key}"] = value
        leaves = []
        for i, value in enumerate(inputs):
            leaf = value.clone()
            if value.dtype == F64:
                leaf.requires_grad_()
            leaves.append(leaf)
            keep[f"{name}/in{i}"] = value
        out = flat(call(layer, *leaves) if call else layer(*leaves))
        seed = normal(*out.shape, seed=name + "seed")
        keep[f"{name}/out"] = out
        if out.requires_grad:
            out.backward(seed)
            keep[f"{name}/seed"] = seed
            for i, leaf in enumerate(leaves):
                if leaf.grad is not None:
                    keep[f"{name}/grad_in{i}"] = leaf.grad
            for key, parameter in layer.named_parameters():
                if parameter.grad is not None:
                    keep[f"{name}/grad/{key}"] = parameter.grad
        for key, value in layer.state_dict().items():
            if not torch.equal(value, state[key]) and key in dict(layer.named_buffers()):
                keep[f"{name}/after/{key}"] = value


def ids(values):
    return torch.tensor(values)


def write(out):
    case = Write()

    def x(*shape):
        return normal(*shape, seed=f"x{shape}")

    case("bilinear", nn.Bilinear(3, 4, 2), x(5, 3), x(5, 4))
    case("embedding", nn.Embedding(6, 3, padding_idx=2), ids([[0, 2, 5], [5, 1, 2]]))
    for mode in ("sum", "mean", "max"):
        case(f"embedding_bag_{mode}", nn.EmbeddingBag(6, 3, mode=mode, padding_idx=1), ids([[0, 2, 5], [5, 1, 2]]))
        case(f"embedding_bag_{mode}_offsets", nn.EmbeddingBag(6, 3, mode=mode), ids([4, 0, 2, 5, 5, 1]),
             ids([0, 2, 2, 5]))
    case("embedding_bag_weights", nn.EmbeddingBag(6, 3, mode="sum"), ids([[0, 2], [5, 1]]), x(2, 2),
         call=lambda layer, i, w: layer(i, per_sample_weights=w))
    case("conv1d_circular", nn.Conv1d(2, 4, 3, padding=2, padding_mode="circular", groups=2), x(2, 2, 7))
    case("conv2d_same", nn.Conv2d(2, 3, (3, 2), padding="same", dilation=(2, 1)), x(2, 2, 5, 6))
    case("conv2d_reflect", nn.Conv2d(2, 3, 3, stride=2, padding=(1, 2), padding_mode="reflect"), x(1, 2, 5, 6))
    case("conv3d", nn.Conv3d(2, 4, (1, 3, 2), stride=(1, 2, 1), padding=1, groups=2), x(1, 2, 3, 5, 4))
    case("conv_transpose1d", nn.ConvTranspose1d(4, 2, 3, stride=2, padding=1, output_padding=1, groups=2), x(2, 4, 5))
    case("conv_transpose2d", nn.ConvTranspose2d(2, 3, (3, 2), stride=(2, 3), bias=False), x(1, 2, 3, 4))
    case("conv_transpose3d", nn.ConvTranspose3d(2, 2, 2, stride=2, dilation=2, padding=1), x(1, 2, 2, 3, 2))
    case("max_pool1d", nn.MaxPool1d(3, 2, 1), x(2, 2, 9))
    case("max_pool2d", nn.MaxPool2d(2), x(1, 2, 5, 6))
    case("max_pool2d_overlapping", nn.MaxPool2d((3, 2), (2, 1), (1, 0), (1, 2), ceil_mode=True), x(1, 2, 6, 6))
    case("max_pool2d_ties", nn.MaxPool2d(3, 1, 1), torch.ones(1, 1, 4, 5, dtype=F64))
    case("max_pool3d", nn.MaxPool3d(2, 1), x(1, 2, 3, 3, 4))
    case("avg_pool1d", nn.AvgPool1d(3, 2, 1), x(2, 2, 9))
    case("avg_pool2d", nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), x(1, 2, 6, 6))
    case("avg_pool3d", nn.AvgPool3d(2), x(1, 2, 4, 3, 4))
    case("adaptive_avg_pool1d", nn.AdaptiveAvgPool1d(3), x(2, 2, 9))
    case("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((3, None)), x(1, 2, 5, 6))
    case("adaptive_avg_pool3d", nn.AdaptiveAvgPool3d(1), x(1, 2, 4, 3, 4))
    case("adaptive_max_pool1d", nn.AdaptiveMaxPool1d(4), x(2, 2, 9))
    case("adaptive_max_pool2d", nn.AdaptiveMaxPool2d((2, 4)), x(1, 2, 5, 6))
    case("adaptive_max_pool3d", nn.AdaptiveMaxPool3d(2), x(1, 2, 4, 3, 4))
    case("batch_norm1d", nn.BatchNorm1d(3), x(4, 3))
    case("batch_norm2d", nn.BatchNorm2d(2, momentum=None), x(3, 2, 3, 4))
    case("batch_norm3d", nn.BatchNorm3d(2, track_running_stats=False), x(2, 2, 2, 3, 2))
    case("batch_norm2d_eval", nn.BatchNorm2d(2).eval(), x(3, 2, 3, 4))
    case("instance_norm1d", nn.InstanceNorm1d(3, affine=True, track_running_stats=True), x(2, 3, 5))
    case("instance_norm2d", nn.InstanceNorm2d(3), x(3, 4, 5))
    case("instance_norm3d", nn.InstanceNorm3d(2, affine=True, momentum=0.3), x(2, 2, 2, 3, 2))
    case("instance_norm2d_eval", nn.InstanceNorm2d(2, track_running_stats=True).eval(), x(3, 2, 3, 4))
    case("group_norm", nn.GroupNorm(2, 4), x(2, 4, 3))
    case("layer_norm", nn.LayerNorm((3, 4)), x(2, 3, 4))
    case("rms_norm", nn.RMSNorm(4, eps=1e-5), x(2, 3, 4))
    for name, layer in {
        "relu": nn.ReLU(), "relu6": nn.ReLU6(), "leaky_relu": nn.LeakyReLU(0.1), "prelu": nn.PReLU(3), "elu": nn.ELU(0.7),
        "selu": nn.SELU(), "celu": nn.CELU(1.5), "gelu": nn.GELU(), "gelu_tanh": nn.GELU(approximate="tanh"),
        "silu": nn.SiLU(), "mish": nn.Mish(), "softplus": nn.Softplus(2, 1), "softsign": nn.Softsign(),
        "hardswish": nn.Hardswish(), "hardsigmoid": nn.Hardsigmoid(), "hardtanh": nn.Hardtanh(-0.5, 0.8),
        "tanh": nn.Tanh(), "tanhshrink": nn.Tanhshrink(), "sigmoid": nn.Sigmoid(), "log_sigmoid": nn.LogSigmoid(),
        "hardshrink": nn.Hardshrink(), "softshrink": nn.Softshrink(0.3), "softmax": nn.Softmax(1),
        "log_softmax": nn.LogSoftmax(-1), "glu": nn.GLU(2),
    }.items():
        case(name, layer, x(2, 3, 8) * 2)
    case("rnn", nn.RNN(3, 4, num_layers=2), x(5, 2, 3))
    case("rnn_relu", nn.RNN(3, 4, nonlinearity="relu", bias=False, batch_first=True), x(2, 5, 3), x(1, 2, 4))
    case("lstm", nn.LSTM(3, 4, num_layers=2, bidirectional=True), x(5, 2, 3))
    case("lstm_state", nn.LSTM(3, 4, batch_first=True), x(2, 5, 3), x(1, 2, 4), x(1, 2, 4) * 0.5,
         call=lambda layer, i, h, c: layer(i, (h, c)))
    case("gru", nn.GRU(3, 4, num_layers=2, bidirectional=True), x(5, 2, 3), x(4, 2, 4))
    case("lstm_cell", nn.LSTMCell(3, 4), x(2, 3), x(2, 4), x(2, 4) * 0.5, call=lambda layer, i, h, c: layer(i, (h, c)))
    case("gru_cell", nn.GRUCell(3, 4), x(2, 3), x(2, 4))
    case("rnn_cell", nn.RNNCell(3, 4, nonlinearity="relu"), x(2, 3), x(2, 4))

    def attention(**options):
        return lambda layer, q, k, v: layer(q, k, v, need_weights=False, **options)[0]
    later = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    padding = torch.tensor([[False, False, False, False, True], [False, False, True, True, True]])
    case("attention", nn.MultiheadAttention(8, 2), x(4, 2, 8), x(5, 2, 8), x(5, 2, 8) * 0.5, call=attention())
    case("attention_weights", nn.MultiheadAttention(8, 2, batch_first=True), x(2, 4, 8), x(2, 5, 8), x(2, 5, 8) * 0.5,
         call=lambda layer, q, k, v: layer(q, k, v, key_padding_mask=padding))
    case("attention_dims", nn.MultiheadAttention(8, 4, kdim=3, vdim=5, bias=False), x(4, 8), x(5, 3), x(5, 5),
         call=attention())
    case("attention_masks", nn.MultiheadAttention(8, 2, batch_first=True), x(2, 5, 8), x(2, 5, 8), x(2, 5, 8) * 0.5,
         call=attention(attn_mask=later, key_padding_mask=padding))
    options = {"dim_feedforward": 12, "dropout": 0.0}
    case("encoder_layer", nn.TransformerEncoderLayer(8, 2, **options), x(4, 2, 8))
    case("encoder_layer_first", nn.TransformerEncoderLayer(8, 2, norm_first=True, activation="gelu", batch_first=True,
                                                           **options), x(2, 5, 8),
         call=lambda layer, i: layer(i, src_mask=later, src_key_padding_mask=padding))
    case("decoder_layer", nn.TransformerDecoderLayer(8, 2, **options), x(5, 2, 8), x(4, 2, 8),
         call=lambda layer, i, m: layer(i, m, tgt_mask=later))
    case("encoder", nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, bias=False, batch_first=True, **options), 2,
                                          nn.LayerNorm(8, bias=False), enable_nested_tensor=False), x(2, 5, 8))
    case("decoder", nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, norm_first=True, **options), 2), x(5, 2, 8),
         x(4, 2, 8))
    case("upsample_nearest", nn.Upsample(scale_factor=2), x(1, 2, 3, 2))
    case("upsample_bilinear", nn.Upsample(size=(5, 7), mode="bilinear", align_corners=True), x(1, 2, 3, 4))
    case("pixel_shuffle", nn.PixelShuffle(2), x(1, 8, 2, 3))
    case("pixel_unshuffle", nn.PixelUnshuffle(2), x(1, 2, 4, 6))

    def ctc(inputs, targets, **options):
        loss = nn.CTCLoss(**options)
        return lambda layer, scores, labels: loss(layer(scores), labels, torch.tensor(inputs), torch.tensor(targets))
    labels = ids([[1, 2, 2, 1], [3, 1, 4, 4], [2, 2, 2, 2]])
    case("ctc_mean", nn.LogSoftmax(2), x(9, 3, 5), labels, call=ctc([9, 7, 8], [4, 2, 3]))
    case("ctc_none", nn.LogSoftmax(2), x(9, 3, 5), ids([1, 2, 2, 1, 3, 1, 4]),
         call=ctc([9, 7, 8], [4, 3, 0], reduction="none"))
    case("ctc_blank", nn.LogSoftmax(2), x(9, 3, 5), ids([[1, 0, 0], [0, 0, 1], [2, 2, 2]]),
         call=ctc([9, 7, 4], [3, 1, 3], reduction="sum", blank=3, zero_infinity=True))
    stored = {k: v.float() if v.dtype == F64 else v for k, v in case.tensors.items()}
    save_safetensors(out / "layers.safetensors", stored, {"source": f"PyTorch {torch.__version__.split('+')[0]}, float64"})
