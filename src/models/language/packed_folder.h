// Quantised weights of Hugging Face folders, as weights of models: GPTQ, AWQ, MLX's affine groups, fp8 with
// scales, and MXFP4.
#pragma once

#include <lockstep/io/tensor_file.h>

#include "io/json_fields.h"

namespace lockstep {
inline namespace v0 {
namespace models {

/// Replaces the quantised tensors of a folder by ones "....weight" [out, in] with their values, by what `config` (its
/// config.json) says of them: quantization_config (quant_method gptq, awq, fp8, fbgemm_fp8, mxfp4, compressed-tensors
/// and modelopt with fp8), or quantization (MLX). With `packed` they stay in blocks where an encoding holds just these
/// values (io/block_codes.h), else they are f32. Whatever else `config` says is a FormatError that names it, and so are
/// tensors that do not fit each other.
void read_packed_weights(const io::JsonFields& config, io::TensorMap& tensors, bool packed);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
