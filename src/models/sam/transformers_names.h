// Weights of Segment Anything under the names of Hugging Face's transformers (facebook/sam-vit-base and others).
// Internal.
#pragma once

#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace sam {

/// The same tensors under the names of the original checkpoints; `weights` as they are if their names are others than
/// those of transformers' SamModel.
nn::StateDict with_original_names(const nn::StateDict& weights);

}  // namespace sam
}  // namespace models
}  // namespace v0
}  // namespace lockstep
