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

constexpr std::int64_t kWordBits = 32;

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

/// Numbers of some bits one behind the other, the first in the lowest bits; one may lie in two words.
struct BitRows {
  const std::vector<std::uint32_t>& words;
  std::int64_t bits;
  std::int64_t row;     ///< Words from a row to the next,
  std::int64_t stride;  ///< and from one of a row to the next.
};

std::vector<std::int16_t> unpack(const BitRows& from, std::int64_t rows, std::int64_t columns) {
  std::vector<std::int16_t> numbers(static_cast<std::size_t>(rows * columns));
  std::int16_t* to = numbers.data();
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::uint32_t* word = from.words.data() + row * from.row;
    std::uint64_t held = 0;
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      if (count < from.bits) {
        held |= std::uint64_t{*word} << count;
        word += from.stride;
        count += kWordBits;
      }
      *to++ = static_cast<std::int16_t>(held & ((1U << from.bits) - 1));
      held >>= from.bits;
      count -= from.bits;
    }
  }
  return numbers;
}

// Of 1 to 8; 7 have no format.
std::int64_t read_bits(const io::JsonFields& config) {
  const std::int64_t bits = config.integer("bits", 1, 16);
  if (bits < 2 || bits > 8 || bits == 7)
    config.fail("bits", fmt::format("{} bits are not supported (2, 3, 4, 5, 6 and 8 are)", bits));
  return bits;
}

/// How many numbers of some bits the words hold.
std::int64_t numbers_in(std::int64_t words, std::int64_t bits, const std::string& name) {
  if (words * kWordBits % bits != 0) refuse_tensor(name, fmt::format("holds no whole numbers of {} bits", bits));
  return words * kWordBits / bits;
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

// The group of each input: those of `part`, if there is such a tensor, else equal ones.
std::vector<std::int32_t> groups_of(const PackedParts& parts, const char* part, const io::CodedMatrix& matrix,
                                    const std::string& scales) {
  const Tensor* given = parts.find(part);
  if (given == nullptr) return equal_groups(matrix.columns, matrix.groups, scales);
  const std::string name = parts.path() + part;
  if (given->shape() != Shape{matrix.columns}) refuse_tensor(name, "does not fit the weights");
  std::vector<std::int32_t> result;
  for (const std::int64_t group : given->to(DType::i64).to_vector<std::int64_t>()) {
    if (group < 0 || group >= matrix.groups)
      refuse_tensor(name, fmt::format("names the group {} of {}", group, matrix.groups));
    result.push_back(static_cast<std::int32_t>(group));
  }
  return result;
}

/// Of codes less the zero of their group, [groups, out].
void take_zeros(io::CodedMatrix& matrix, const std::vector<std::int16_t>& zeros) {
  std::int16_t* code = matrix.codes.data();
  for (std::int64_t o = 0; o < matrix.rows; ++o) {
    for (const std::int32_t group : matrix.group_of) {
      *code = static_cast<std::int16_t>(*code - zeros[static_cast<std::size_t>(group * matrix.rows + o)]);
      ++code;
    }
  }
}

// Codes lie along the inputs, zeros along the outputs. But for checkpoint_format gptq_v2 zeros are stored one too low,
// where none is the largest number (GPTQModel).
void read_gptq(const io::JsonFields& config, io::TensorMap& tensors, bool packed) {
  const std::int64_t bits = read_bits(config);
  const std::string form = config.text_or("checkpoint_format", "gptq");
  if (form != "gptq" && form != "gptq_v2")
    config.fail("checkpoint_format", fmt::format("{} is not supported (gptq and gptq_v2 are)", in_quotes(form)));
  for (const std::string& path : paths_with(tensors, ".qweight")) {
    PackedParts parts(tensors, path);
    const std::vector<std::uint32_t> codes = parts.words(".qweight");
    const std::vector<std::uint32_t> packed_zeros = parts.words(".qzeros");
    const std::int64_t in = numbers_in(parts.matrix(".qweight").size(0), bits, path + ".qweight");
    const std::int64_t out = parts.matrix(".qweight").size(1);
    const std::int64_t groups = parts.matrix(".scales").size(0);
    io::CodedMatrix matrix{.rows = out, .columns = in, .groups = groups};
    matrix.scales = turned(parts.floats(".scales", {groups, out}), groups, out);
    const std::int64_t wide = out * bits / kWordBits;
    if (out * bits % kWordBits != 0 || parts.matrix(".qzeros").shape() != Shape{groups, wide})
      refuse_tensor(path + ".qzeros", "does not fit the scales");
    matrix.group_of = groups_of(parts, ".g_idx", matrix, path + ".scales");
    std::vector<std::int16_t> zeros =
        unpack({.words = packed_zeros, .bits = bits, .row = wide, .stride = 1}, groups, out);
    if (form == "gptq") {
      for (std::int16_t& zero : zeros) zero = static_cast<std::int16_t>((zero + 1) & ((1 << bits) - 1));
    }
    matrix.codes = unpack({.words = codes, .bits = bits, .row = 1, .stride = out}, out, in);
    take_zeros(matrix, zeros);
    parts.put(tensor_of(matrix, packed), {".qweight", ".qzeros", ".scales", ".g_idx"});
  }
}

// Codes and zeros lie along the outputs, in the order 0 2 4 6 1 3 5 7.
void read_awq(const io::JsonFields& config, io::TensorMap& tensors, bool packed) {
  if (read_bits(config) != 4) config.fail("bits", "only 4 are supported");
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
    io::CodedMatrix matrix{.rows = out, .columns = in, .groups = groups};
    matrix.scales = turned(parts.floats(".scales", {groups, out}), groups, out);
    matrix.group_of = equal_groups(in, groups, path + ".scales");
    if (parts.matrix(".qzeros").shape() != Shape{groups, words})
      refuse_tensor(path + ".qzeros", "does not fit the scales");
    std::vector<std::uint32_t> column(static_cast<std::size_t>(in));
    matrix.codes.resize(static_cast<std::size_t>(out * in));
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

// code * scale + bias; embeddings may be packed, too. A layer may have its own description, by its path.
void read_mlx(const io::JsonFields& config, io::TensorMap& tensors, bool packed) {
  for (const std::string& path : paths_with(tensors, ".scales")) {
    const nlohmann::json* own = config.find(path.c_str());
    const io::JsonFields description = own != nullptr && own->is_object() ? config.object(path.c_str()) : config;
    if (description.text_or("mode", "affine") != "affine")
      description.fail("mode", fmt::format("{} is not supported (affine is)", in_quotes(description.text("mode"))));
    const std::int64_t bits = read_bits(description);
    PackedParts parts(tensors, path);
    const std::vector<std::uint32_t> words = parts.words(".weight");
    const std::int64_t out = parts.matrix(".weight").size(0);
    const std::int64_t wide = parts.matrix(".weight").size(1);
    const std::int64_t in = numbers_in(wide, bits, path + ".weight");
    const std::int64_t groups = parts.matrix(".scales").size(1);
    io::CodedMatrix matrix{.rows = out, .columns = in, .groups = groups};
    matrix.scales = parts.floats(".scales", {out, groups});
    matrix.offsets = parts.floats(".biases", {out, groups});
    matrix.group_of = equal_groups(in, groups, path + ".scales");
    matrix.codes = unpack({.words = words, .bits = bits, .row = wide, .stride = 1}, out, in);
    parts.put(tensor_of(matrix, packed), {".scales", ".biases"});
  }
}

// compressed-tensors: codes lie along the inputs, zeros, if there are any, along the outputs; both are raised by half
// of their range. The number of bits follows from the shape, as layers may have different ones.
void read_compressed_words(io::TensorMap& tensors, bool packed) {
  for (const std::string& path : paths_with(tensors, ".weight_packed")) {
    PackedParts parts(tensors, path);
    const std::vector<std::uint32_t> words = parts.words(".weight_packed");
    const std::int64_t out = parts.matrix(".weight_packed").size(0);
    const std::int64_t wide = parts.matrix(".weight_packed").size(1);
    const Tensor* shape = parts.find(".weight_shape");
    if (shape == nullptr || shape->shape() != Shape{2}) refuse_tensor(path + ".weight_shape", "is no pair of sizes");
    const std::int64_t in = shape->to(DType::i64).to_vector<std::int64_t>()[1];
    const std::int64_t bits = in >= kWordBits && in <= wide * kWordBits ? wide * kWordBits / in : 0;
    if (bits < 2 || bits > 8) refuse_tensor(path + ".weight_shape", "does not fit the packed weights");
    const std::int64_t groups = parts.matrix(".weight_scale").size(1);
    io::CodedMatrix matrix{.rows = out, .columns = in, .groups = groups};
    matrix.scales = parts.floats(".weight_scale", {out, groups});
    matrix.group_of = groups_of(parts, ".weight_g_idx", matrix, path + ".weight_scale");
    std::vector<std::int16_t> zeros(static_cast<std::size_t>(groups * out), static_cast<std::int16_t>(1 << (bits - 1)));
    if (parts.find(".weight_zero_point") != nullptr) {
      const std::vector<std::uint32_t> given = parts.words(".weight_zero_point");
      if (parts.matrix(".weight_zero_point").shape() != Shape{(out * bits + kWordBits - 1) / kWordBits, groups})
        refuse_tensor(path + ".weight_zero_point", "does not fit the scales");
      zeros = unpack({.words = given, .bits = bits, .row = 1, .stride = groups}, groups, out);
    }
    matrix.codes = unpack({.words = words, .bits = bits, .row = wide, .stride = 1}, out, in);
    take_zeros(matrix, zeros);
    parts.put(tensor_of(matrix, packed),
              {".weight_packed", ".weight_shape", ".weight_scale", ".weight_g_idx", ".weight_zero_point"});
  }
}

// compressed-tensors' int8, a factor for each output, without zeros.
Tensor scaled_bytes(const PackedParts& parts, const Tensor& factors, bool packed) {
  const Tensor& weight = parts.matrix(".weight");
  const std::int64_t out = weight.size(0);
  if (parts.find(".weight_zero_point") != nullptr)
    refuse_tensor(parts.path() + ".weight_zero_point", "is not supported");
  if (factors.numel() != out && factors.numel() != 1)
    refuse_tensor(parts.path() + ".weight_scale", "has no factor for each output");
  io::CodedMatrix matrix{.rows = out, .columns = weight.size(1), .groups = 1};
  matrix.codes = weight.to(DType::i16).to_vector<std::int16_t>();
  matrix.scales = factors.to(DType::f32).reshape({-1, 1}).expand({out, 1}).to_vector<float>();
  matrix.group_of.resize(static_cast<std::size_t>(matrix.columns));
  return tensor_of(matrix, packed);
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
void read_fp8(io::TensorMap& tensors, bool packed, bool ints = false) {
  for (const char* part : {".weight_scale_inv", ".weight_scale"}) {
    for (const std::string& path : paths_with(tensors, part)) {
      PackedParts parts(tensors, path);
      const Tensor& weight = parts.matrix(".weight");
      if (weight.dtype() == DType::i8 && ints) {
        read_factors(path + part, tensors.at(path + part));
        parts.put(scaled_bytes(parts, tensors.at(path + part), packed), {part, ".input_scale"});
        continue;
      }
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
    if (method == "compressed-tensors") {
      const std::string format = quantised.text_or("format", "");
      if (format != "float-quantized" && format != "int-quantized" && format != "naive-quantized" &&
          format != "pack-quantized" && format != "mixed-precision")
        quantised.fail("format", fmt::format("{} is not supported", in_quotes(format)));
      read_compressed_words(tensors, packed);
      return read_fp8(tensors, packed, true);
    }
    if (method == "mlx") return read_mlx(quantised, tensors, packed);
    quantised.fail(
        "quant_method",
        fmt::format(
            "{} is not supported (gptq, awq, fp8, fbgemm_fp8, mxfp4, compressed-tensors and modelopt's FP8 are)",
            in_quotes(method)));
  }
  if (config.has("quantization")) read_mlx(config.object("quantization"), tensors, packed);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
