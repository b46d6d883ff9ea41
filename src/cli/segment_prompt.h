// What `lockstep segment` was asked for, from the words of the command line.
#pragma once

#include <string>
#include <vector>

#include <lockstep/models/sam.h>

namespace lockstep {
inline namespace v0 {
namespace cli {

/// "X,Y" or "X,Y,1" for what is wanted, "X,Y,0" for what is not. Throws UsageError.
models::SamPoint parse_point(const std::string& text);
/// "X0,Y0,X1,Y1". Throws UsageError.
models::SamBox parse_box(const std::string& text);

/// Logits [1, side, side] for a prompt: those of a file of tensors (.npy, or safetensors with one tensor) as they are,
/// or a PNG or JPEG of the picture's size, white inside and black outside. Throws ValueError where sizes do not fit,
/// and what reading throws.
Tensor load_mask_prompt(const std::string& path, const models::Sam& model, const models::SamFrame& frame);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
