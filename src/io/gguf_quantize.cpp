// Files and tensors as blocks of a quantised type: which tensors are weights, and what the metadata then say.
#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/gguf.h>
#include <lockstep/tensor.h>

#include "core/assert.h"
#include "core/checked.h"
#include "io/block_encode.h"
#include "io/formats.h"
#include "io/gguf_writer.h"
#include "io/reading.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

// general.file_type of files whose weights have one block type: ggml's numbers (LlamaFileType of the package gguf).
struct FileTypeNumber {
  std::string_view type;
  std::uint32_t number;
};
constexpr std::array kFileTypes = {FileTypeNumber{"Q4_0", 2}, FileTypeNumber{"Q4_1", 3}, FileTypeNumber{"Q8_0", 7},
                                   FileTypeNumber{"Q5_0", 8}, FileTypeNumber{"Q5_1", 9}, FileTypeNumber{"MXFP4", 38}};
constexpr std::uint32_t kQuantizationVersion = 2;

std::uint32_t file_type_number(const BlockType& type) {
  const auto* row = std::find_if(kFileTypes.begin(), kFileTypes.end(),
                                 [&](const FileTypeNumber& candidate) { return candidate.type == type.name; });
  LOCKSTEP_ASSERT(row != kFileTypes.end());
  return row->number;
}

const BlockType& type_with_encoder(std::string_view name) {
  for (const BlockType& type : block_types()) {
    if (type.name == name && type.encode != nullptr) return type;
  }
  throw ValueError(fmt::format("no quantiser writes blocks of {}; there are those of {}", name,
                               fmt::join(quantizable_types(), ", ")));
}

// By name: llama.cpp keeps the same tensors.
bool named_as_weight(std::string_view name) {
  constexpr std::string_view kKept[] = {"_norm.weight", "ffn_gate_inp",   "position_embd", "token_types",
                                        "ssm_conv1d",   "shortconv.conv", "time_mix_"};
  return name.ends_with(".weight") && std::none_of(std::begin(kKept), std::end(kKept), [&](std::string_view part) {
           return name.find(part) != std::string_view::npos;
         });
}

bool is_weight(const GgufTensor& tensor, const BlockType& type) {
  const auto dense = tensor.type->dense;
  const bool floats = dense == StoredType::f32 || dense == StoredType::f16 || dense == StoredType::bf16;
  return floats && tensor.shape.rank() >= 2 && named_as_weight(tensor.name) &&
         tensor.shape[tensor.shape.rank() - 1] % type.elements == 0;
}

std::vector<std::byte> encoded_blocks(const Tensor& tensor, const BlockType& type) {
  const std::vector<float> values = tensor.to(DType::f32).to_vector<float>();
  std::vector<std::byte> blocks(values.size() / type.elements * type.bytes);
  encode_blocks(type, values, blocks);
  return blocks;
}

std::vector<std::byte> quantized_bytes(const os::FileBytes& file, const GgufTensor& tensor, const BlockType& type) {
  try {
    return encoded_blocks(to_tensor(gguf_elements(file, tensor), file.path, tensor.name), type);
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("{}: tensor {}: {}", file.path, in_quotes(tensor.name), error.what()));
  }
}

std::vector<std::byte> stored_bytes(const os::FileBytes& file, const GgufTensor& tensor) {
  const auto bytes = file.bytes.subspan(tensor.offset, tensor.bytes);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::vector<std::string> quantizable_types() {
  std::vector<std::string> names;
  for (const BlockType& type : block_types()) {
    if (type.encode != nullptr) names.emplace_back(type.name);
  }
  return names;
}

std::vector<QuantizedTensor> quantize_gguf(const std::string& input, const std::string& output, std::string_view type) {
  const BlockType& target = type_with_encoder(type);
  const os::FileBytes file = os::map_file(input);
  if (!text_of(file.bytes).starts_with("GGUF")) {
    throw FormatError(fmt::format("{}: a GGUF file is wanted; {}", input, describe_start(file.bytes)));
  }
  return reading(input, [&] {
    GgufHeader header = parse_gguf(file);
    std::vector<GgufPart> parts;
    std::vector<QuantizedTensor> report;
    for (const GgufTensor& tensor : header.tensors) {
      if (!tensor.type->dense && tensor.type != &target) {
        throw ValueError(
            fmt::format("{}: tensor {} is packed already ({}); it would be rounded twice, so begin with "
                        "a file of F32, F16 or BF16",
                        input, in_quotes(tensor.name), tensor.type->name));
      }
      const bool packs = is_weight(tensor, target);
      const BlockType* to = packs ? &target : tensor.type;
      const std::uint64_t elements = element_count(tensor.shape).value();
      report.push_back({tensor.name, std::string(tensor.type->name), std::string(to->name), tensor.bytes,
                        elements / to->elements * to->bytes});
      parts.push_back({tensor.name, to, tensor.shape, [&file, &tensor, &target, packs] {
                         return packs ? quantized_bytes(file, tensor, target) : stored_bytes(file, tensor);
                       }});
    }
    header.metadata.insert_or_assign("general.file_type", file_type_number(target));
    header.metadata.insert_or_assign("general.quantization_version", kQuantizationVersion);
    write_gguf(output, parts, header.metadata, os::system_calls());
    return report;
  });
}

Tensor quantize(const Tensor& values, Encoding encoding) {
  if (encoding == Encoding::dense) throw ValueError("quantize: dense elements have no blocks; name an encoding");
  std::string name(name_of(encoding));
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const BlockType& type = type_with_encoder(name);
  check_defined("quantize", "values", values);
  const bool floats = values.dtype() == DType::f32 || values.dtype() == DType::f16 || values.dtype() == DType::bf16;
  if (!floats || values.encoding() != Encoding::dense) {
    throw DTypeError(fmt::format("quantize: values are {}; f32, f16 and bf16 can be packed",
                                 type_text(values.dtype(), values.encoding())));
  }
  const Shape& shape = values.shape();
  if (shape.rank() == 0 || shape[shape.rank() - 1] % type.elements != 0) {
    throw ShapeError(fmt::format("quantize: rows of {} are no blocks of {} elements ({})", shape.to_string(),
                                 type.elements, name_of(encoding)));
  }
  const std::vector<std::byte> blocks = encoded_blocks(values, type);
  return Tensor::from_blocks(blocks.data(), blocks.size(), shape, encoding, values.device());
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
