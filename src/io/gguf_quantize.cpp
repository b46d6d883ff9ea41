// Files and tensors as blocks of a quantised type: which tensors are weights, and what the metadata then say.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/gguf.h>
#include <lockstep/tensor.h>

#include "core/assert.h"
#include "core/checked.h"
#include "core/os.h"
#include "core/stop.h"
#include "io/block_encode.h"
#include "io/formats.h"
#include "io/gguf_writer.h"
#include "io/reading.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

/// What files are made of: a block type, or a mixture that keeps more of some weights, as llama.cpp's of that name for
/// models without experts. The number is general.file_type: ggml's (LlamaFileType of the package gguf).
struct Recipe {
  std::string_view name;
  std::uint32_t number;
  std::string_view type;
  std::string_view better =
      {};                       ///< Of the output, and of values and feed-forward outputs of some layers; none: as all.
  std::string_view fused = {};  ///< Of queries, keys and values together.
};
constexpr std::array kRecipes = {
    Recipe{"Q4_0", 2, "Q4_0"},
    Recipe{"Q4_1", 3, "Q4_1"},
    Recipe{"Q5_0", 8, "Q5_0"},
    Recipe{"Q5_1", 9, "Q5_1"},
    Recipe{"Q8_0", 7, "Q8_0"},
    Recipe{"Q2_K", 10, "Q2_K"},
    Recipe{"Q3_K", 11, "Q3_K"},
    Recipe{"Q4_K", 14, "Q4_K"},
    Recipe{"Q4_K_M", 15, "Q4_K", "Q6_K", "Q5_K"},
    Recipe{"Q5_K", 16, "Q5_K"},
    Recipe{"Q5_K_M", 17, "Q5_K", "Q6_K", "Q6_K"},
    Recipe{"Q6_K", 18, "Q6_K"},
    Recipe{"IQ4_NL", 25, "IQ4_NL"},
    Recipe{"IQ4_XS", 30, "IQ4_XS"},
    Recipe{"MXFP4", 38, "MXFP4"},
};
constexpr std::uint32_t kQuantizationVersion = 2;

const BlockType& type_with_encoder(std::string_view name) {
  for (const BlockType& type : block_types()) {
    if (type.name == name && type.encode != nullptr) return type;
  }
  throw ValueError(fmt::format("no quantiser writes blocks of {}; there are those of {}", name,
                               fmt::join(quantizable_types(), ", ")));
}

const Recipe& recipe_of(std::string_view name) {
  const auto* row = std::find_if(kRecipes.begin(), kRecipes.end(), [&](const Recipe& own) { return own.name == name; });
  if (row == kRecipes.end()) type_with_encoder(name);  // says what there is
  LOCKSTEP_ASSERT(row != kRecipes.end());
  return *row;
}

/// What stands in for blocks of 256 elements in rows that are not whole ones: llama.cpp's choice.
const BlockType* that_fits(const BlockType& type, std::int64_t row) {
  constexpr std::pair<std::string_view, std::string_view> kNarrower[] = {
      {"Q2_K", "Q4_0"}, {"Q3_K", "Q4_0"}, {"Q4_K", "Q5_0"}, {"Q5_K", "Q5_1"}, {"Q6_K", "Q8_0"}, {"IQ4_XS", "IQ4_NL"}};
  if (row % type.elements == 0) return &type;
  for (const auto& [wide, narrow] : kNarrower) {
    if (wide == type.name) return that_fits(type_with_encoder(narrow), row);
  }
  return nullptr;
}

// The number in "blk.3.attn_v.weight"; -1 where there is none.
std::int64_t layer_of(std::string_view name) {
  std::int64_t layer = -1;
  if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

/// Of what the type of a weight depends on, beside its name.
struct OtherWeights {
  std::int64_t layers = 0;
  bool output = false;  ///< Else the embedding is the output, too.

  void add(const std::vector<GgufTensor>& tensors) {
    for (const GgufTensor& tensor : tensors) {
      layers = std::max(layers, layer_of(tensor.name) + 1);
      output = output || tensor.name == "output.weight";
    }
  }
};

struct GivenFile {
  os::FileBytes file;
  GgufHeader header;
};

// The first and the last eighth of the layers, and every third one between, keep more.
bool keeps_more(std::int64_t layer, std::int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

std::string_view type_in(const Recipe& recipe, std::string_view name, const OtherWeights& others) {
  if (recipe.better.empty()) return recipe.type;
  if (name == (others.output ? "output.weight" : "token_embd.weight")) return recipe.better;
  if (name.ends_with("attn_qkv.weight")) return recipe.fused;
  const bool candidate = name.ends_with("attn_v.weight") || name.find("ffn_down") != std::string_view::npos;
  return candidate && keeps_more(layer_of(name), others.layers) ? recipe.better : recipe.type;
}

// By name: llama.cpp keeps the same tensors.
bool named_as_weight(std::string_view name) {
  constexpr std::string_view kKept[] = {"_norm.weight", "ffn_gate_inp",   "position_embd", "token_types",
                                        "ssm_conv1d",   "shortconv.conv", "time_mix_"};
  return name.ends_with(".weight") && std::none_of(std::begin(kKept), std::end(kKept), [&](std::string_view part) {
           return name.find(part) != std::string_view::npos;
         });
}

// Null for what stays as it is.
const BlockType* block_type_for(const GgufTensor& tensor, const Recipe& recipe, const OtherWeights& others) {
  if (tensor.shape.rank() < 2 || !named_as_weight(tensor.name)) return nullptr;
  const BlockType& type = type_with_encoder(type_in(recipe, tensor.name, others));
  return that_fits(type, tensor.shape[tensor.shape.rank() - 1]);
}

bool is_float(const GgufTensor& tensor) {
  const auto dense = tensor.type->dense;
  return dense == StoredType::f32 || dense == StoredType::f16 || dense == StoredType::bf16;
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
  for (const Recipe& recipe : kRecipes) names.emplace_back(recipe.name);
  return names;
}

std::vector<QuantizedTensor> quantize_gguf(const std::string& input, const std::string& output, std::string_view type) {
  const Recipe& recipe = recipe_of(type);
  return reading(input, [&] {
    std::vector<std::string> names = {input};
    std::vector<GivenFile> files;
    OtherWeights others;
    std::size_t count = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const os::FileBytes file = os::map_file(names[i]);
      if (!text_of(file.bytes).starts_with("GGUF")) {
        throw FormatError(fmt::format("{}: a GGUF file is wanted; {}", names[i], describe_start(file.bytes)));
      }
      files.push_back({file, parse_gguf(file)});
      const GgufHeader& header = files.back().header;
      if (i == 0) names = gguf_files(input, header.metadata);
      if (names.size() > 1) check_gguf_file(names, i, header.metadata);
      others.add(header.tensors);
      count += header.tensors.size();
    }
    Metadata& metadata = files.front().header.metadata;
    check_gguf_count(input, metadata, count);
    std::erase_if(metadata, [](const auto& item) { return item.first.starts_with("split."); });
    std::vector<GgufPart> parts;
    std::vector<QuantizedTensor> report;
    const auto take = [&](const os::FileBytes& file, const GgufTensor& tensor) {
      const BlockType* target = block_type_for(tensor, recipe, others);
      if (!tensor.type->dense && tensor.type != target) {
        throw ValueError(
            fmt::format("{}: tensor {} is packed already ({}); it would be rounded twice, so begin with "
                        "a file of F32, F16 or BF16",
                        file.path, in_quotes(tensor.name), tensor.type->name));
      }
      const bool packs = target != nullptr && is_float(tensor);
      const BlockType* to = packs ? target : tensor.type;
      const std::uint64_t elements = element_count(tensor.shape).value();
      report.push_back({tensor.name, std::string(tensor.type->name), std::string(to->name), tensor.bytes,
                        elements / to->elements * to->bytes});
      parts.push_back({tensor.name, to, tensor.shape, [&file, &output, &tensor, target, packs] {
                         if (const int signal = os::stop_signal(); signal != 0) {
                           throw IoError(
                               fmt::format("{}: not written: stopped by {}", output, os::signal_name(signal)));
                         }
                         return packs ? quantized_bytes(file, tensor, *target) : stored_bytes(file, tensor);
                       }});
    };
    for (const GivenFile& given : files) {
      for (const GgufTensor& tensor : given.header.tensors) take(given.file, tensor);
    }
    metadata.insert_or_assign("general.file_type", recipe.number);
    metadata.insert_or_assign("general.quantization_version", kQuantizationVersion);
    write_gguf(output, parts, metadata, os::system_calls());
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
