// Quantised weights of Hugging Face folders, decoded into f32: GPTQ, AWQ, MLX's affine groups, and fp8 with scales.
#pragma once

#include <lockstep/io/tensor_file.h>

#include "io/json_fields.h"

namespace lockstep {
inline namespace v0 {
namespace models {

/// Replaces the packed tensors of a folder by dense ones "....weight" [out, in], by what `config` (its config.json)
/// says of them: quantization_config (quant_method gptq, awq, fp8, compressed-tensors with fp8), or quantization (MLX).
/// Whatever else it says is a FormatError that names it, and so are tensors that do not fit each other.
void decode_packed(const io::JsonFields& config, io::TensorMap& tensors);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
