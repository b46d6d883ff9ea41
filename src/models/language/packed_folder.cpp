#include "models/language/packed_folder.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "core/checked.h"

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
  void put(std::vector<float> values, const Shape& shape, std::initializer_list<const char*> used) {
    for (const char* part : used) tensors_.erase(path_ + part);
    tensors_.insert_or_assign(path_ + ".weight", Tensor::from(values, shape));
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

// (code - zero) * scale, rounded once: a scale has 11 bits, and so the product is exact.
float scaled(std::int64_t code, std::int64_t zero, float scale) {
  return static_cast<float>(code - zero) * scale;
}

// Codes lie along the inputs, zeros along the outputs; zeros are stored one too low, but for checkpoint_format gptq_v2.
void decode_gptq(const io::JsonFields& config, io::TensorMap& tensors) {
  const std::int64_t bits = read_bits(config, "bits");
  const std::int64_t lower = config.text_or("checkpoint_format", "gptq") == "gptq_v2" ? 0 : 1;
  const std::int64_t per_word = 32 / bits;
  const std::uint32_t mask = (1U << bits) - 1;
  for (const std::string& path : paths_with(tensors, ".qweight")) {
    PackedParts parts(tensors, path);
    const std::vector<std::uint32_t> codes = parts.words(".qweight");
    const std::vector<std::uint32_t> zeros = parts.words(".qzeros");
    const std::int64_t in = parts.matrix(".qweight").size(0) * per_word;
    const std::int64_t out = parts.matrix(".qweight").size(1);
    const std::int64_t groups = parts.matrix(".scales").size(0);
    const std::vector<float> scales = parts.floats(".scales", {groups, out});
    if (out % per_word != 0 || parts.matrix(".qzeros").shape() != Shape{groups, out / per_word})
      refuse_tensor(path + ".qzeros", "does not fit the scales");
    std::vector<std::int64_t> group_of;
    if (const Tensor* given = parts.find(".g_idx")) {
      if (given->shape() != Shape{in}) refuse_tensor(path + ".g_idx", "does not fit the weights");
      group_of = given->to(DType::i64).to_vector<std::int64_t>();
    } else {
      if (in % groups != 0) refuse_tensor(path + ".scales", "does not fit the weights");
      for (std::int64_t i = 0; i < in; ++i) group_of.push_back(i / (in / groups));
    }
    std::vector<float> values(static_cast<std::size_t>(out * in));
    for (std::int64_t i = 0; i < in; ++i) {
      const std::int64_t group = group_of[static_cast<std::size_t>(i)];
      if (group < 0 || group >= groups)
        refuse_tensor(path + ".g_idx", fmt::format("names the group {} of {}", group, groups));
      for (std::int64_t o = 0; o < out; ++o) {
        const std::uint32_t word = codes[static_cast<std::size_t>(i / per_word * out + o)];
        const std::uint32_t zero = zeros[static_cast<std::size_t>(group * (out / per_word) + o / per_word)];
        values[static_cast<std::size_t>(o * in + i)] =
            scaled(word >> (bits * (i % per_word)) & mask, (zero >> (bits * (o % per_word)) & mask) + lower,
                   scales[static_cast<std::size_t>(group * out + o)]);
      }
    }
    parts.put(std::move(values), {out, in}, {".qweight", ".qzeros", ".scales", ".g_idx"});
  }
}

// Codes and zeros lie along the outputs, in the order 0 2 4 6 1 3 5 7.
void decode_awq(const io::JsonFields& config, io::TensorMap& tensors) {
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
    const std::vector<float> scales = parts.floats(".scales", {groups, out});
    if (in % groups != 0) refuse_tensor(path + ".scales", "does not fit the weights");
    if (parts.matrix(".qzeros").shape() != Shape{groups, words})
      refuse_tensor(path + ".qzeros", "does not fit the scales");
    std::vector<float> values(static_cast<std::size_t>(out * in));
    for (std::int64_t i = 0; i < in; ++i) {
      const std::int64_t group = i / (in / groups);
      for (std::int64_t o = 0; o < out; ++o) {
        const int shift = 4 * kPlace[static_cast<std::size_t>(o % kPerWord)];
        values[static_cast<std::size_t>(o * in + i)] =
            scaled(codes[static_cast<std::size_t>(i * words + o / kPerWord)] >> shift & 15,
                   zeros[static_cast<std::size_t>(group * words + o / kPerWord)] >> shift & 15,
                   scales[static_cast<std::size_t>(group * out + o)]);
      }
    }
    parts.put(std::move(values), {out, in}, {".qweight", ".qzeros", ".scales"});
  }
}

// code * scale + bias; embeddings may be packed, too.
void decode_mlx(const io::JsonFields& config, io::TensorMap& tensors) {
  if (config.text_or("mode", "affine") != "affine")
    config.fail("mode", fmt::format("{} is not supported (affine is)", in_quotes(config.text("mode"))));
  const std::int64_t bits = read_bits(config, "bits");
  const std::int64_t per_word = 32 / bits;
  const std::uint32_t mask = (1U << bits) - 1;
  for (const std::string& path : paths_with(tensors, ".scales")) {
    PackedParts parts(tensors, path);
    const std::vector<std::uint32_t> codes = parts.words(".weight");
    const std::int64_t out = parts.matrix(".weight").size(0);
    const std::int64_t words = parts.matrix(".weight").size(1);
    const std::int64_t in = words * per_word;
    const std::int64_t groups = parts.matrix(".scales").size(1);
    const std::vector<float> scales = parts.floats(".scales", {out, groups});
    const std::vector<float> biases = parts.floats(".biases", {out, groups});
    if (in % groups != 0) refuse_tensor(path + ".scales", "does not fit the weights");
    std::vector<float> values(static_cast<std::size_t>(out * in));
    for (std::int64_t o = 0; o < out; ++o) {
      for (std::int64_t i = 0; i < in; ++i) {
        const auto at = static_cast<std::size_t>(o * groups + i / (in / groups));
        const std::uint32_t code =
            codes[static_cast<std::size_t>(o * words + i / per_word)] >> (bits * (i % per_word)) & mask;
        values[static_cast<std::size_t>(o * in + i)] = static_cast<float>(code) * scales[at] + biases[at];
      }
    }
    parts.put(std::move(values), {out, in}, {".scales", ".biases"});
  }
}

std::vector<float> fp8_values(const std::string& name, const Tensor& weight) {
  std::vector<float> result;
  if (weight.dtype() == DType::f8e4m3) {
    for (const Float8E4M3 value : weight.to_vector<Float8E4M3>()) result.push_back(to_f32(value));
  } else if (weight.dtype() == DType::f8e5m2) {
    for (const Float8E5M2 value : weight.to_vector<Float8E5M2>()) result.push_back(to_f32(value));
  } else {
    refuse_tensor(name, fmt::format("is {}, not fp8", name_of(weight.dtype())));
  }
  return result;
}

// weight_scale_inv has a factor for each block (DeepSeek), weight_scale one for the tensor or for each output.
void decode_fp8(io::TensorMap& tensors) {
  for (const char* part : {".weight_scale_inv", ".weight_scale"}) {
    for (const std::string& path : paths_with(tensors, part)) {
      PackedParts parts(tensors, path);
      const Tensor& weight = parts.matrix(".weight");
      const std::int64_t out = weight.size(0);
      const std::int64_t in = weight.size(1);
      std::vector<float> values = fp8_values(path + ".weight", weight);
      const Tensor& given = tensors.at(path + part);
      if (given.dtype() != DType::f32 && given.dtype() != DType::bf16 && given.dtype() != DType::f16)
        refuse_tensor(path + part, "is no float");
      const std::vector<float> scales = given.to(DType::f32).to_vector<float>();
      std::int64_t rows = 1;
      std::int64_t columns = 1;
      if (given.rank() == 2) {
        rows = given.size(0);
        columns = given.size(1);
      } else if (given.numel() != 1) {
        rows = given.numel();
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
      const std::int64_t tall = size_of(out, rows);
      const std::int64_t wide = size_of(in, columns);
      for (std::int64_t o = 0; o < out; ++o) {
        for (std::int64_t i = 0; i < in; ++i) {
          values[static_cast<std::size_t>(o * in + i)] *=
              scales[static_cast<std::size_t>(o / tall * columns + i / wide)];
        }
      }
      const Shape shape = weight.shape();
      parts.put(std::move(values), shape, {part, ".input_scale"});
    }
  }
}

// gpt-oss: the experts of a layer are one tensor [E, out, in / 32, 16] of pairs of codes, the first in the lower bits,
// and a scale for each 32 (OCP's Microscaling Formats); in the published f32 weights they are [E, in, out].
void decode_mxfp4(io::TensorMap& tensors) {
  constexpr std::array kCodes = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  constexpr int kBias = 127;
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
    const std::vector<std::uint8_t> codes = blocks.to_vector<std::uint8_t>();
    const std::vector<std::uint8_t> exponents = scales.to_vector<std::uint8_t>();
    std::vector<float> values;
    values.reserve(codes.size() * 2);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const int exponent = exponents[i / static_cast<std::size_t>(kBytes)] - kBias;
      for (const int code : {codes[i] & 15, codes[i] >> 4}) {
        const float size = std::ldexp(kCodes[static_cast<std::size_t>(code & 7)], exponent);
        values.push_back((code & 8) != 0 ? -size : size);
      }
    }
    const Tensor decoded = Tensor::from(values, {experts, out, groups * 2 * kBytes});
    tensors.erase(path + "_blocks");
    tensors.erase(path + "_scales");
    tensors.insert_or_assign(path, decoded.transpose(1, 2).clone().eval());
  }
}

}  // namespace

void decode_packed(const io::JsonFields& config, io::TensorMap& tensors) {
  if (config.has("quantization_config")) {
    const io::JsonFields quantised = config.object("quantization_config");
    // MLX writes its own description under this name, too.
    const std::string method = quantised.text_or("quant_method", quantised.has("group_size") ? "mlx" : "");
    if (method == "gptq") return decode_gptq(quantised, tensors);
    if (method == "awq") return decode_awq(quantised, tensors);
    if (method == "fp8") return decode_fp8(tensors);
    if (method == "mxfp4") return decode_mxfp4(tensors);
    if (method == "compressed-tensors" && quantised.text_or("format", "") == "float-quantized")
      return decode_fp8(tensors);
    if (method == "mlx") return decode_mlx(quantised, tensors);
    quantised.fail("quant_method",
                   fmt::format("{} is not supported (gptq, awq, fp8 and mxfp4 are)", in_quotes(method)));
  }
  if (config.has("quantization")) decode_mlx(config.object("quantization"), tensors);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
