#include "models/language/packed_folder.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "core/checked.h"
#include "io/block_codes.h"
#include "io/block_layout.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

[[noreturn]] void refuse_tensor(const std::string& name, const std::string& what) {
  throw FormatError(fmt::format("{}: {}", in_quotes(name), what));
}

/// The tensors below one path: "model.layers.0.mlp.up_proj".
class PackedParts {
 public:
  PackedParts(io::TensorMap& tensors, std::string path) : tensors_(tensors), path_(std::move(path)) {}

  const Tensor* find(const char* part) const {
    const auto found = tensors_.find(path_ + part);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  const Tensor& matrix(const char* part) const {
    const Tensor* found = find(part);
    if (found == nullptr) refuse_tensor(path_ + part, "is missing beside the others of this weight");
    if (found->rank() != 2 || found->numel() == 0) refuse_tensor(path_ + part, "is no matrix");
    return *found;
  }
  /// The words of a matrix of 32-bit integers.
  std::vector<std::uint32_t> words(const char* part) const {
    const Tensor& found = matrix(part);
    std::vector<std::uint32_t> result;
    if (found.dtype() == DType::u32) return found.to_vector<std::uint32_t>();
    if (found.dtype() != DType::i32)
      refuse_tensor(path_ + part, fmt::format("is {}, not 32-bit integers", name_of(found.dtype())));
    for (const std::int32_t word : found.to_vector<std::int32_t>()) result.push_back(static_cast<std::uint32_t>(word));
    return result;
  }
  /// The elements of a float tensor of this shape.
  std::vector<float> floats(const char* part, const Shape& shape) const {
    const Tensor& found = matrix(part);
    if (found.shape() != shape) {
      refuse_tensor(path_ + part,
                    fmt::format("has the shape {}, not {}", found.shape().to_string(), shape.to_string()));
    }
    if (found.dtype() != DType::f16 && found.dtype() != DType::bf16 && found.dtype() != DType::f32) {
      refuse_tensor(path_ + part, fmt::format("is {}, no float", name_of(found.dtype())));
    }
    return found.to(DType::f32).to_vector<float>();
  }
  void put(const Tensor& weight, std::initializer_list<const char*> used) {
    for (const char* part : used) tensors_.erase(path_ + part);
    tensors_.insert_or_assign(path_ + ".weight", weight);
  }
  const std::string& path() const { return path_; }

 private:
  io::TensorMap& tensors_;
  std::string path_;
};

std::vector<std::string> paths_with(const io::TensorMap& tensors, std::string_view part) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : tensors) {
    if (name.ends_with(part)) result.push_back(name.substr(0, name.size() - part.size()));
  }
  return result;
}

std::int64_t read_bits(const io::JsonFields& config, const char* key) {
  const std::int64_t bits = config.integer(key, 1, 16);
  if (bits != 2 && bits != 4 && bits != 8)
    config.fail(key, fmt::format("{} bits are not supported (2, 4 and 8 are)", bits));
  return bits;
}

io::CodedMatrix coded_matrix(std::int64_t rows, std::int64_t columns, std::int64_t groups) {
  io::CodedMatrix result{.rows = rows, .columns = columns, .groups = groups};
  result.codes.resize(static_cast<std::size_t>(rows * columns));
  return result;
}

/// The groups of `columns` inputs, of one size each.
std::vector<std::int32_t> equal_groups(std::int64_t columns, std::int64_t groups, const std::string& scales) {
  if (columns % groups != 0) refuse_tensor(scales, "does not fit the weights");
  std::vector<std::int32_t> result;
  for (std::int64_t i = 0; i < columns; ++i) result.push_back(static_cast<std::int32_t>(i / (columns / groups)));
  return result;
}

/// [groups, out] to [out, groups].
std::vector<float> turned(const std::vector<float>& scales, std::int64_t groups, std::int64_t out) {
  std::vector<float> result(scales.size());
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t o = 0; o < out; ++o) {
      result[static_cast<std::size_t>(o * groups + g)] = scales[static_cast<std::size_t>(g * out + o)];
    }
  }
  return result;
}

// Codes lie along the inputs, zeros along the outputs; zeros are stored one too low, but for checkpoint_format gptq_v2.
void read_gptq(const io::JsonFields& config, io::TensorMap& tensors, bool packed) {
  const std::int64_t bits = read_bits(config, "bits");
  const std::uint32_t lower = config.text_or("checkpoint_format", "gptq") == "gptq_v2" ? 0U : 1U;
  const std::int64_t per_word = 32 / bits;
  const std::uint32_t mask = (1U << bits) - 1;
  for (const std::string& path : paths_with(tensors, ".qweight")) {
    PackedParts parts(tensors, path);
    const std::vector<std::uint32_t> codes = parts.words(".qweight");
    const std::vector<std::uint32_t> zeros = parts.words(".qzeros");
    const std::int64_t words = parts.matrix(".qweight").size(0);
    const std::int64_t in = words * per_word;
    const std::int64_t out = parts.matrix(".qweight").size(1);
    const std::int64_t groups = parts.matrix(".scales").size(0);
    io::CodedMatrix matrix = coded_matrix(out, in, groups);
    matrix.scales = turned(parts.floats(".scales", {groups, out}), groups, out);
    if (out % per_word != 0 || parts.matrix(".qzeros").shape() != Shape{groups, out / per_word})
      refuse_tensor(path + ".qzeros", "does not fit the scales");
    if (const Tensor* given = parts.find(".g_idx")) {
      if (given->shape() != Shape{in}) refuse_tensor(path + ".g_idx", "does not fit the weights");
      for (const std::int64_t group : given->to(DType::i64).to_vector<std::int64_t>()) {
        if (group < 0 || group >= groups)
          refuse_tensor(path + ".g_idx", fmt::format("names the group {} of {}", group, groups));
        matrix.group_of.push_back(static_cast<std::int32_t>(group));
      }
    } else {
      matrix.group_of = equal_groups(in, groups, path + ".scales");
    }
    std::vector<int> zero_of(static_cast<std::size_t>(groups));
    for (std::int64_t o = 0; o < out; ++o) {
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::uint32_t word = zeros[static_cast<std::size_t>(g * (out / per_word) + o / per_word)];
        zero_of[static_cast<std::size_t>(g)] = static_cast<int>((word >> (bits * (o % per_word)) & mask) + lower);
      }
      std::int16_t* to = matrix.codes.data() + o * in;
      const std::int32_t* group = matrix.group_of.data();
      for (std::int64_t w = 0; w < words; ++w) {
        std::uint32_t word = codes[static_cast<std::size_t>(w * out + o)];
        for (std::int64_t i = 0; i < per_word; ++i, word >>= bits) {
          *to++ =
              static_cast<std::int16_t>(static_cast<int>(word & mask) - zero_of[static_cast<std::size_t>(*group++)]);
        }
      }
    }
    parts.put(tensor_of(matrix, packed), {".qweight", ".qzeros", ".scales", ".g_idx"});
  }
}

// Codes and zeros lie along the outputs, in the order 0 2 4 6 1 3 5 7.
void read_awq(const io::JsonFields& config, io::TensorMap& tensors, bool packed) {
  if (read_bits(config, "bits") != 4) config.fail("bits", "only 4 are supported");
  if (config.text_or("version", "gemm") != "gemm" && config.text_or("version", "gemm") != "GEMM") {
    config.fail("version", fmt::format("{} is not supported (gemm is)", in_quotes(config.text("version"))));
  }
  constexpr std::array kPlace = {0, 4, 1, 5, 2, 6, 3, 7};
  constexpr std::int64_t kPerWord = 8;
  for (const std::string& path : paths_with(tensors, ".qweight")) {
    PackedParts parts(tensors, path);
    const std::vector<std::uint32_t> codes = parts.words(".qweight");
    const std::vector<std::uint32_t> zeros = parts.words(".qzeros");
    const std::int64_t in = parts.matrix(".qweight").size(0);
    const std::int64_t words = parts.matrix(".qweight").size(1);
    const std::int64_t out = words * kPerWord;
    const std::int64_t groups = parts.matrix(".scales").size(0);
    io::CodedMatrix matrix = coded_matrix(out, in, groups);
    matrix.scales = turned(parts.floats(".scales", {groups, out}), groups, out);
    matrix.group_of = equal_groups(in, groups, path + ".scales");
    if (parts.matrix(".qzeros").shape() != Shape{groups, words})
      refuse_tensor(path + ".qzeros", "does not fit the scales");
    std::vector<std::uint32_t> column(static_cast<std::size_t>(in));
    std::int16_t* to = matrix.codes.data();
    for (std::int64_t w = 0; w < words; ++w) {
      for (std::int64_t i = 0; i < in; ++i)
        column[static_cast<std::size_t>(i)] = codes[static_cast<std::size_t>(i * words + w)];
      for (const int place : kPlace) {
        const std::uint32_t* word = column.data();
        for (std::int64_t g = 0; g < groups; ++g) {
          const int zero = static_cast<int>(zeros[static_cast<std::size_t>(g * words + w)] >> (4 * place) & 15);
          for (std::int64_t i = 0; i < in / groups; ++i) {
            *to++ = static_cast<std::int16_t>(static_cast<int>(*word++ >> (4 * place) & 15) - zero);
          }
        }
      }
    }
    parts.put(tensor_of(matrix, packed), {".qweight", ".qzeros", ".scales"});
  }
}

// code * scale + bias; embeddings may be packed, too.
void read_mlx(const io::JsonFields& config, io::TensorMap& tensors, bool packed) {
  if (config.text_or("mode", "affine") != "affine")
    config.fail("mode", fmt::format("{} is not supported (affine is)", in_quotes(config.text("mode"))));
  const std::int64_t bits = read_bits(config, "bits");
  const std::int64_t per_word = 32 / bits;
  const std::uint32_t mask = (1U << bits) - 1;
  for (const std::string& path : paths_with(tensors, ".scales")) {
    PackedParts parts(tensors, path);
    const std::vector<std::uint32_t> words = parts.words(".weight");
    const std::int64_t out = parts.matrix(".weight").size(0);
    const std::int64_t in = parts.matrix(".weight").size(1) * per_word;
    const std::int64_t groups = parts.matrix(".scales").size(1);
    io::CodedMatrix matrix = coded_matrix(out, in, groups);
    matrix.scales = parts.floats(".scales", {out, groups});
    matrix.offsets = parts.floats(".biases", {out, groups});
    matrix.group_of = equal_groups(in, groups, path + ".scales");
    std::int16_t* to = matrix.codes.data();
    for (const std::uint32_t word : words) {
      for (std::int64_t i = 0; i < per_word; ++i) *to++ = static_cast<std::int16_t>(word >> (bits * i) & mask);
    }
    parts.put(tensor_of(matrix, packed), {".scales", ".biases"});
  }
}

// Factors of fp8 weights: numbers, whatever a file holds.
std::vector<float> read_factors(const std::string& name, const Tensor& given) {
  if (given.dtype() != DType::f32 && given.dtype() != DType::bf16 && given.dtype() != DType::f16)
    refuse_tensor(name, fmt::format("is {}, no float", name_of(given.dtype())));
  std::vector<float> factors = given.to(DType::f32).to_vector<float>();
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (!std::isfinite(factors[i])) refuse_tensor(name, fmt::format("is {} at {}, no number", factors[i], i));
  }
  return factors;
}

// weight_scale_inv has a factor for each block (DeepSeek), weight_scale one for the tensor or for each output.
void read_fp8(io::TensorMap& tensors, bool packed) {
  for (const char* part : {".weight_scale_inv", ".weight_scale"}) {
    for (const std::string& path : paths_with(tensors, part)) {
      PackedParts parts(tensors, path);
      const Tensor& weight = parts.matrix(".weight");
      if (weight.dtype() != DType::f8e4m3 && weight.dtype() != DType::f8e5m2)
        refuse_tensor(path + ".weight", fmt::format("is {}, not fp8", name_of(weight.dtype())));
      const Tensor& given = tensors.at(path + part);
      std::int64_t rows = 1;
      std::int64_t columns = 1;
      if (given.rank() == 2) {
        rows = given.size(0);
        columns = given.size(1);
      } else {
        rows = given.rank() < 2 ? given.numel() : -1;  // fits nothing
      }
      // Blocks are 128 wide, the last ones narrower; a factor for each output is a block as wide as the row.
      const auto size_of = [&](std::int64_t all, std::int64_t count) {
        constexpr std::int64_t kBlock = 128;
        if (count == 1) return all;
        if (count == all) return std::int64_t{1};
        if ((all + kBlock - 1) / kBlock == count) return kBlock;
        refuse_tensor(path + part, fmt::format("has the shape {} for a weight of {}", given.shape().to_string(),
                                               weight.shape().to_string()));
      };
      const io::ScaledFloats matrix{.floats = weight,
                                    .tall = size_of(weight.size(0), rows),
                                    .wide = size_of(weight.size(1), columns),
                                    .scales = read_factors(path + part, given)};
      parts.put(tensor_of(matrix, packed), {part, ".input_scale"});
    }
  }
  // Of caches in fp8, which there are none of.
  std::erase_if(tensors,
                [](const auto& item) { return item.first.ends_with(".k_scale") || item.first.ends_with(".v_scale"); });
}

// gpt-oss: the experts of a layer are one tensor [E, out, in / 32, 16] of pairs of codes, the first in the lower bits,
// and a scale for each 32 (OCP's Microscaling Formats); in the published f32 weights they are [E, in, out].
void read_mxfp4(io::TensorMap& tensors, bool packed) {
  constexpr std::int64_t kBytes = 16;
  for (const std::string& path : paths_with(tensors, "_blocks")) {
    const auto bytes = [&](const std::string& name, int rank) {
      const auto found = tensors.find(name);
      if (found == tensors.end()) refuse_tensor(name, "is missing beside the others of this weight");
      if (found->second.dtype() != DType::u8 || found->second.rank() != rank || found->second.numel() == 0) {
        refuse_tensor(name, fmt::format("is no u8 tensor of {} dimensions", rank));
      }
      return found->second;
    };
    const Tensor blocks = bytes(path + "_blocks", 4);
    const Tensor scales = bytes(path + "_scales", 3);
    const std::int64_t experts = blocks.size(0);
    const std::int64_t out = blocks.size(1);
    const std::int64_t groups = blocks.size(2);
    if (blocks.size(3) != kBytes) refuse_tensor(path + "_blocks", "does not have blocks of 16 bytes");
    if (scales.shape() != Shape{experts, out, groups}) refuse_tensor(path + "_scales", "does not fit the blocks");
    const std::vector<std::uint8_t> pairs = blocks.to_vector<std::uint8_t>();
    const std::vector<std::uint8_t> exponents = scales.to_vector<std::uint8_t>();
    std::vector<std::uint8_t> written;
    written.reserve(pairs.size() + exponents.size());
    for (std::size_t block = 0; block < exponents.size(); ++block) {
      int codes[io::kShortBlock];
      for (std::size_t i = 0; i < io::kShortBlock; ++i) {
        codes[i] = pairs[block * kBytes + i / 2] >> (i % 2 == 0 ? 0 : 4) & 15;
      }
      std::array<std::uint8_t, kBytes> nibbles{};
      io::put_nibbles(nibbles.data(), codes);
      written.push_back(exponents[block]);
      written.insert(written.end(), nibbles.begin(), nibbles.end());
    }
    const Tensor weight =
        Tensor::from_blocks(written.data(), written.size(), {experts, out, groups * io::kShortBlock}, Encoding::mxfp4)
            .transpose(1, 2);
    tensors.erase(path + "_blocks");
    tensors.erase(path + "_scales");
    tensors.insert_or_assign(path, packed ? weight : dequantize(weight).clone().eval());
  }
}

}  // namespace

void read_packed_weights(const io::JsonFields& config, io::TensorMap& tensors, bool packed) {
  if (config.has("quantization_config")) {
    const io::JsonFields quantised = config.object("quantization_config");
    // MLX writes its own description under this name, too.
    const std::string method = quantised.text_or("quant_method", quantised.has("group_size") ? "mlx" : "");
    if (method == "gptq") return read_gptq(quantised, tensors, packed);
    if (method == "awq") return read_awq(quantised, tensors, packed);
    if (method == "fp8" || method == "fbgemm_fp8") return read_fp8(tensors, packed);
    if (method == "modelopt" && quantised.text_or("quant_algo", "") == "FP8") return read_fp8(tensors, packed);
    if (method == "mxfp4") return read_mxfp4(tensors, packed);
    if (method == "compressed-tensors" && quantised.text_or("format", "") == "float-quantized")
      return read_fp8(tensors, packed);
    if (method == "mlx") return read_mlx(quantised, tensors, packed);
    quantised.fail(
        "quant_method",
        fmt::format(
            "{} is not supported (gptq, awq, fp8, fbgemm_fp8, mxfp4, compressed-tensors and modelopt with fp8 are)",
            in_quotes(method)));
  }
  if (config.has("quantization")) read_mlx(config.object("quantization"), tensors, packed);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
