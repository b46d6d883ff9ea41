// Writes GGUF files: tensors dense or quantised, with typed metadata. load_weights and list_tensors (io/weights.h) read
// them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/encoding.h>
#include <lockstep/export.h>
#include <lockstep/io/metadata.h>
#include <lockstep/io/tensor_file.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// Writes the tensors (from any device, in the order of their names) and metadata as a GGUF file of version 3, so that
/// a crash or an error leaves either the old file or the new. Tensors keep their dtypes: f32, f16, bf16, f64, i8, i16,
/// i32 or i64. "general.alignment", a power of two of type u32, is honoured; without it data are aligned to 32 bytes.
/// Equal tensors and metadata give equal files. Throws IoError if writing fails; ValueError for what the format cannot
/// hold: other dtypes, more than 4 dimensions, names of more than 64 bytes, arrays of arrays; DTypeError for packed
/// tensors (dequantize makes them dense).
LOCKSTEP_API void save_gguf(const std::string& path, const TensorMap& tensors, const Metadata& metadata = {});

/// What quantize_gguf can write: the block types Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS and MXFP4,
/// whose blocks have the bytes that ggml writes for the same values without an importance matrix; and the mixtures
/// Q4_K_M and Q5_K_M of llama.cpp, as it makes them for models without experts.
LOCKSTEP_API std::vector<std::string> quantizable_types();

/// What quantize_gguf did with one tensor.
struct QuantizedTensor {
  std::string name;
  std::string from;  ///< As ggml spells types: "F16".
  std::string to;    ///< Equal to `from` for a tensor that was copied.
  std::uint64_t bytes_before = 0;
  std::uint64_t bytes_after = 0;
};

/// Writes the GGUF file `output` (which may be `input`): the weights of `input` as blocks of `type`, all else as it is,
/// and of a model in several files, of which `input` is the first, all in one. Weights are the tensors "....weight"
/// with two dimensions or more, rows of whole blocks, and elements of F32, F16 or BF16; but no norms, no routers of
/// experts and no tables of positions or token types, as in llama.cpp. All have the same type, but for mixtures and for
/// rows that are no whole blocks of 256 elements, which get blocks of 32 (Q2_K, Q3_K: Q4_0; Q4_K: Q5_0; Q5_K: Q5_1;
/// Q6_K: Q8_0; IQ4_XS: IQ4_NL). Metadata are kept; general.file_type and general.quantization_version become what they
/// must be. One tensor at a time is in memory as f32. ValueError if there is no quantiser for `type`, if a tensor is
/// packed in other blocks already (it would be rounded twice), or for values that blocks cannot hold (naming the
/// tensor); FormatError unless `input` is a valid GGUF file.
LOCKSTEP_API std::vector<QuantizedTensor> quantize_gguf(const std::string& input, const std::string& output,
                                                        std::string_view type);

/// The values of a tensor of f32, f16 or bf16 in blocks of `encoding`, on the tensor's device (Tensor::from_blocks):
/// the nearest codes, by the same rule as quantize_gguf. DTypeError for other dtypes and packed tensors; ShapeError
/// unless the last size is a multiple of the block's; ValueError for values that blocks cannot hold and for `dense`.
LOCKSTEP_API Tensor quantize(const Tensor& values, Encoding encoding);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
