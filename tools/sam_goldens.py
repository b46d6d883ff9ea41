#!/usr/bin/env python3
"""Makes tests/data/sam_vit.safetensors: a small Segment Anything with a plain vision transformer, and what the
implementation of transformers (SamModel) computes with it in float64.

The weights are random, of a fixed seed, and stored as f16 under the keys of the original checkpoints. Beside them stand
`input.pixels` (a normalised picture), `input.mask` and `input.points`/`input.labels`/`input.box` in pixels of the
network's square, and as `golden.*` the embedding, the masks and the predicted IoU:
    golden.embedding                  the image encoder's result
    golden.points.masks, .iou         of two points, three masks
    golden.box.masks, .iou            of the box together with the mask, one mask
The metadata's `transformers_names` (JSON) maps the names that transformers has for the weights to the original ones.
The sizes leave a window incomplete on purpose: a grid of 8 x 8 in windows of 3.

Needs: torch, transformers, safetensors. The same versions write the same bytes.
"""
import json
import pathlib
import re

import torch
from safetensors.torch import save_file
from transformers import SamConfig, SamMaskDecoderConfig, SamModel, SamPromptEncoderConfig, SamVisionConfig

SIDE = 128
CHANNELS = 32

# From the names of transformers to those of the checkpoints, in this order.
NAMES = [
    (r"^vision_encoder\.layers\.(\d+)\.layer_norm", r"image_encoder.blocks.\1.norm"),
    (r"^vision_encoder\.layers\.", "image_encoder.blocks."),
    (r"^vision_encoder\.patch_embed\.projection\.", "image_encoder.patch_embed.proj."),
    (r"^vision_encoder\.neck\.conv1\.", "image_encoder.neck.0."),
    (r"^vision_encoder\.neck\.layer_norm1\.", "image_encoder.neck.1."),
    (r"^vision_encoder\.neck\.conv2\.", "image_encoder.neck.2."),
    (r"^vision_encoder\.neck\.layer_norm2\.", "image_encoder.neck.3."),
    (r"^vision_encoder\.", "image_encoder."),
    (r"^prompt_encoder\.shared_embedding\.positional_embedding",
     "prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"),
    (r"^prompt_encoder\.point_embed\.", "prompt_encoder.point_embeddings."),
    (r"^prompt_encoder\.mask_embed\.conv1\.", "prompt_encoder.mask_downscaling.0."),
    (r"^prompt_encoder\.mask_embed\.layer_norm1\.", "prompt_encoder.mask_downscaling.1."),
    (r"^prompt_encoder\.mask_embed\.conv2\.", "prompt_encoder.mask_downscaling.3."),
    (r"^prompt_encoder\.mask_embed\.layer_norm2\.", "prompt_encoder.mask_downscaling.4."),
    (r"^prompt_encoder\.mask_embed\.conv3\.", "prompt_encoder.mask_downscaling.6."),
    (r"^mask_decoder\.upscale_conv1\.", "mask_decoder.output_upscaling.0."),
    (r"^mask_decoder\.upscale_layer_norm\.", "mask_decoder.output_upscaling.1."),
    (r"^mask_decoder\.upscale_conv2\.", "mask_decoder.output_upscaling.3."),
    (r"layer_norm_final_attn\.", "norm_final_attn."),
    (r"^(mask_decoder\.transformer\.layers\.\d+)\.layer_norm", r"\1.norm"),
    (r"\.proj_out\.", ".layers.2."),
    (r"^(mask_decoder\.(?:output_hypernetworks_mlps\.\d+|iou_prediction_head))\.layers\.0\.", r"\1.layers.1."),
    (r"\.proj_in\.", ".layers.0."),
]


def original_name(name):
    for pattern, replacement in NAMES:
        name = re.sub(pattern, replacement, name)
    return name


def small_model():
    vision = SamVisionConfig(hidden_size=CHANNELS, output_channels=CHANNELS, num_hidden_layers=3, num_attention_heads=4,
                             image_size=SIDE, patch_size=16, global_attn_indexes=[1], window_size=3,
                             mlp_dim=2 * CHANNELS, num_pos_feats=CHANNELS // 2)
    prompt = SamPromptEncoderConfig(hidden_size=CHANNELS, image_size=SIDE, patch_size=16, mask_input_channels=8)
    decoder = SamMaskDecoderConfig(hidden_size=CHANNELS, mlp_dim=48, num_hidden_layers=2, num_attention_heads=4,
                                   iou_head_hidden_dim=CHANNELS)
    return SamModel(SamConfig(vision_config=vision.to_dict(), prompt_encoder_config=prompt.to_dict(),
                              mask_decoder_config=decoder.to_dict()))


def random_weights(model):
    """Values that keep activations of the order of 1, so that an error anywhere shows."""
    generator = torch.Generator().manual_seed(16)
    for name, value in model.state_dict().items():
        noise = torch.randn(value.shape, generator=generator)
        if re.search(r"norm\d?(_final_attn)?\.weight$", name):
            noise = 1 + 0.2 * noise
        elif value.dim() > 1 and "embed" not in name.rsplit(".", 2)[-2] and "token" not in name:
            noise = noise / (value[0].numel() ** 0.5)
        elif name.endswith("bias"):
            noise = 0.1 * noise
        value.copy_(noise.half().float())
    shared = model.state_dict()["prompt_encoder.shared_embedding.positional_embedding"]
    model.state_dict()["shared_image_embedding.positional_embedding"].copy_(shared)


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    model = small_model().eval()
    random_weights(model)
    weights = {original_name(name): value.half().contiguous().clone() for name, value in model.state_dict().items()
               if not name.startswith("shared_image_embedding.")}
    model.double()
    generator = torch.Generator().manual_seed(17)
    pixels = torch.randn((1, 3, SIDE, SIDE), generator=generator).half().double()
    mask = (4 * torch.randn((1, 1, SIDE // 4, SIDE // 4), generator=generator)).half().double()
    points = torch.tensor([[[[30.0, 41.5], [100.25, 7.0]]]], dtype=torch.float64)
    labels = torch.tensor([[[1, 0]]])
    box = torch.tensor([[[10.0, 20.0, 90.0, 110.5]]], dtype=torch.float64)

    embedding = model.get_image_embeddings(pixels)
    by_points = model(image_embeddings=embedding, input_points=points, input_labels=labels, multimask_output=True)
    by_box = model(image_embeddings=embedding, input_boxes=box, input_masks=mask, multimask_output=False)
    tensors = dict(weights)
    tensors |= {"input.pixels": pixels.half(), "input.mask": mask.half(), "input.points": points[0].float(),
                "input.labels": labels[0].int(), "input.box": box[0].float(),
                "golden.embedding": embedding.float().contiguous()}
    for name, result in (("points", by_points), ("box", by_box)):
        tensors[f"golden.{name}.masks"] = result.pred_masks[0].float().contiguous()
        tensors[f"golden.{name}.iou"] = result.iou_scores[0].float().contiguous()
    for name, value in tensors.items():
        if name.startswith("golden."):
            print(name, tuple(value.shape), f"deviation {value.std(correction=0):.3f}, largest {value.abs().max():.3f}")
    # Which tensor of transformers is which of the original.
    names = {name: original_name(name) for name in model.state_dict() if not name.startswith("shared_image_embedding.")}
    path = pathlib.Path(__file__).resolve().parent.parent / "tests/data/sam_vit.safetensors"
    save_file(tensors, path, metadata={"transformers_names": json.dumps(names)})
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
