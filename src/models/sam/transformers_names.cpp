#include "models/sam/transformers_names.h"

#include <array>
#include <string_view>
#include <utility>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace sam {
namespace {

using Renaming = std::pair<std::string_view, std::string_view>;

// Applied one after the other: special ones stand before general ones.
constexpr std::array kRenamings{
    Renaming{"vision_encoder.layers.", "image_encoder.blocks."},
    Renaming{"vision_encoder.patch_embed.projection.", "image_encoder.patch_embed.proj."},
    Renaming{"vision_encoder.neck.conv1.", "image_encoder.neck.0."},
    Renaming{"vision_encoder.neck.layer_norm1.", "image_encoder.neck.1."},
    Renaming{"vision_encoder.neck.conv2.", "image_encoder.neck.2."},
    Renaming{"vision_encoder.neck.layer_norm2.", "image_encoder.neck.3."},
    Renaming{"vision_encoder.", "image_encoder."},
    Renaming{"prompt_encoder.shared_embedding.positional_embedding",
             "prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"},
    Renaming{"prompt_encoder.point_embed.", "prompt_encoder.point_embeddings."},
    Renaming{"prompt_encoder.mask_embed.conv1.", "prompt_encoder.mask_downscaling.0."},
    Renaming{"prompt_encoder.mask_embed.layer_norm1.", "prompt_encoder.mask_downscaling.1."},
    Renaming{"prompt_encoder.mask_embed.conv2.", "prompt_encoder.mask_downscaling.3."},
    Renaming{"prompt_encoder.mask_embed.layer_norm2.", "prompt_encoder.mask_downscaling.4."},
    Renaming{"prompt_encoder.mask_embed.conv3.", "prompt_encoder.mask_downscaling.6."},
    Renaming{"mask_decoder.upscale_conv1.", "mask_decoder.output_upscaling.0."},
    Renaming{"mask_decoder.upscale_layer_norm.", "mask_decoder.output_upscaling.1."},
    Renaming{"mask_decoder.upscale_conv2.", "mask_decoder.output_upscaling.3."},
    Renaming{".layer_norm", ".norm"},
};

// Of perceptrons, whose hidden layers have numbers of their own there.
constexpr std::array kPerceptronRenamings{
    Renaming{".layers.0.", ".layers.1."},
    Renaming{".proj_in.", ".layers.0."},
    Renaming{".proj_out.", ".layers.2."},
};

void rename(std::string& name, const Renaming& renaming) {
  const std::size_t place = name.find(renaming.first);
  if (place != std::string::npos) name.replace(place, renaming.first.size(), renaming.second);
}

bool is_perceptron(std::string_view name) {
  return name.starts_with("mask_decoder.output_hypernetworks_mlps.") ||
         name.starts_with("mask_decoder.iou_prediction_head.");
}

}  // namespace

nn::StateDict with_original_names(const nn::StateDict& weights) {
  // The encoder's and the prompts' positions are one matrix there; files hold it under one name or both.
  constexpr const char* kShared = "shared_image_embedding.positional_embedding";
  constexpr const char* kOfPrompts = "prompt_encoder.shared_embedding.positional_embedding";
  if (weights.find("vision_encoder.pos_embed") == nullptr) return weights;
  const bool has_both = weights.find(kOfPrompts) != nullptr;
  nn::StateDict result;
  for (const auto& [key, tensor] : weights) {
    if (key == kShared && has_both) continue;
    std::string name = key == kShared ? kOfPrompts : key;
    for (const Renaming& renaming : kRenamings) rename(name, renaming);
    if (is_perceptron(name)) {
      for (const Renaming& renaming : kPerceptronRenamings) rename(name, renaming);
    }
    result.push_back(std::move(name), tensor);
  }
  return result;
}

}  // namespace sam
}  // namespace models
}  // namespace v0
}  // namespace lockstep
