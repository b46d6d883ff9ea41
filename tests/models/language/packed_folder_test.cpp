// Folders with quantised weights: the packers here follow the packages (AutoGPTQ's pack, AutoAWQ's WQLinear_GEMM, MLX's
// quantize, DeepSeek's weight_dequant), and the models must be those of the values that were packed.
#include <filesystem>
#include <functional>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/io/weights.h>
#include <lockstep/models/language.h>
#include <lockstep/ops.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::models {
namespace {

using nlohmann::json;
using test::message_of;
using testing::HasSubstr;

/// Random codes of a weight [out, in] in groups along the inputs.
struct Coded {
  std::int64_t out = 0, in = 0, group = 0, bits = 4;
  std::vector<int> codes;      // [out, in]
  std::vector<int> zeros;      // [out, groups]
  std::vector<float> scales;   // [out, groups], f16 numbers
  std::vector<float> offsets;  // [out, groups]

  std::int64_t groups() const { return in / group; }
  std::size_t at(std::int64_t o, std::int64_t i) const { return static_cast<std::size_t>(o * in + i); }
  std::size_t at_group(std::int64_t o, std::int64_t g) const { return static_cast<std::size_t>(o * groups() + g); }
};

Coded random_codes(std::int64_t out, std::int64_t in, std::int64_t bits, std::mt19937& random,
                   std::int64_t group = 32) {
  Coded result{.out = out, .in = in, .group = group, .bits = bits};
  const auto most = static_cast<unsigned>((1 << bits) - 1);
  for (std::int64_t i = 0; i < out * in; ++i) result.codes.push_back(static_cast<int>(random() % (most + 1)));
  for (std::int64_t i = 0; i < out * result.groups(); ++i) {
    result.zeros.push_back(static_cast<int>(random() % (most + 1)));
    result.scales.push_back(to_f32(to_f16(0.01F + static_cast<float>(random() % 100) * 1e-4F)));
    result.offsets.push_back(to_f32(to_f16(-0.1F)));
  }
  return result;
}

using Value = std::function<float(const Coded&, std::size_t code, std::size_t group)>;
Tensor values_of(const Coded& coded, const Value& value) {
  std::vector<float> result;
  for (std::int64_t o = 0; o < coded.out; ++o) {
    for (std::int64_t i = 0; i < coded.in; ++i) {
      result.push_back(value(coded, coded.at(o, i), coded.at_group(o, i / coded.group)));
    }
  }
  return Tensor::from(result, {coded.out, coded.in});
}
float minus_zero(const Coded& coded, std::size_t code, std::size_t group) {
  return static_cast<float>(coded.codes[code] - coded.zeros[group]) * coded.scales[group];
}

float plus_offset(const Coded& coded, std::size_t code, std::size_t group) {
  return static_cast<float>(coded.codes[code]) * coded.scales[group] + coded.offsets[group];
}

/// [out, groups] as f16 [groups, out].
Tensor transposed_scales(const Coded& coded) {
  return Tensor::from(coded.scales, {coded.out, coded.groups()}).transpose(0, 1).to(DType::f16);
}

/// Words of 32 bits [words, columns], filled from the lowest bits on; a number may lie in two.
struct Words {
  std::int64_t bits, columns;
  std::vector<std::uint32_t> held;

  Words(std::int64_t numbers, std::int64_t bits_each, std::int64_t beside)
      : bits(bits_each), columns(beside), held(static_cast<std::size_t>((numbers * bits_each + 31) / 32 * beside)) {}
  void put(std::int64_t number, std::int64_t column, int value) {
    const std::int64_t bit = number * bits;
    const std::uint64_t shifted = static_cast<std::uint64_t>(value & ((1 << bits) - 1)) << (bit % 32);
    held[static_cast<std::size_t>(bit / 32 * columns + column)] |= static_cast<std::uint32_t>(shifted);
    if (shifted >> 32 != 0)
      held[static_cast<std::size_t>((bit / 32 + 1) * columns + column)] |= static_cast<std::uint32_t>(shifted >> 32);
  }
  Tensor tensor() const {
    const auto count = static_cast<std::int64_t>(held.size());
    return Tensor::from(std::vector<std::int32_t>(held.begin(), held.end()), {count / columns, columns});
  }
};

Tensor packed_along_inputs(const Coded& coded) {
  Words words(coded.in, coded.bits, coded.out);
  for (std::int64_t o = 0; o < coded.out; ++o) {
    for (std::int64_t i = 0; i < coded.in; ++i) words.put(i, o, coded.codes[coded.at(o, i)]);
  }
  return words.tensor();  // [words, out]
}

Tensor packed_zeros(const Coded& coded, int lower) {
  Words words(coded.out, coded.bits, coded.groups());
  for (std::int64_t g = 0; g < coded.groups(); ++g) {
    for (std::int64_t o = 0; o < coded.out; ++o) words.put(o, g, coded.zeros[coded.at_group(o, g)] - lower);
  }
  return words.tensor();  // [words, groups]
}

void pack_gptq(const Coded& coded, const std::string& path, io::TensorMap& tensors, int stored_lower) {
  std::vector<std::int32_t> groups;
  for (std::int64_t i = 0; i < coded.in; ++i) groups.push_back(static_cast<std::int32_t>(i / coded.group));
  tensors.insert_or_assign(path + ".qweight", packed_along_inputs(coded));
  tensors.insert_or_assign(path + ".qzeros", packed_zeros(coded, stored_lower).transpose(0, 1).clone());
  tensors.insert_or_assign(path + ".scales", transposed_scales(coded));
  tensors.insert_or_assign(path + ".g_idx", Tensor::from(groups, {coded.in}));
}

/// compressed-tensors' pack-quantized.
void pack_compressed(const Coded& coded, const std::string& path, io::TensorMap& tensors, bool zeros) {
  tensors.insert_or_assign(path + ".weight_packed", packed_along_inputs(coded).transpose(0, 1).clone());
  tensors.insert_or_assign(path + ".weight_shape", Tensor::from(std::vector<std::int64_t>{coded.out, coded.in}, {2}));
  tensors.insert_or_assign(path + ".weight_scale",
                           Tensor::from(coded.scales, {coded.out, coded.groups()}).to(DType::f16));
  if (zeros) tensors.insert_or_assign(path + ".weight_zero_point", packed_zeros(coded, 0));
}

void pack_awq(const Coded& coded, const std::string& path, io::TensorMap& tensors) {
  constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  const std::int64_t columns = coded.out / 8;
  std::vector<std::int32_t> words(static_cast<std::size_t>(coded.in * columns));
  std::vector<std::int32_t> zeros(static_cast<std::size_t>(coded.groups() * columns));
  for (std::int64_t column = 0; column < columns; ++column) {
    for (int nibble = 0; nibble < 8; ++nibble) {
      const std::int64_t o = column * 8 + kOrder[nibble];
      for (std::int64_t i = 0; i < coded.in; ++i) {
        auto& word = words[static_cast<std::size_t>(i * columns + column)];
        word = static_cast<std::int32_t>(static_cast<std::uint32_t>(word) |
                                         static_cast<std::uint32_t>(coded.codes[coded.at(o, i)]) << (4 * nibble));
      }
      for (std::int64_t g = 0; g < coded.groups(); ++g) {
        auto& word = zeros[static_cast<std::size_t>(g * columns + column)];
        word = static_cast<std::int32_t>(static_cast<std::uint32_t>(word) |
                                         static_cast<std::uint32_t>(coded.zeros[coded.at_group(o, g)]) << (4 * nibble));
      }
    }
  }
  tensors.insert_or_assign(path + ".qweight", Tensor::from(words, {coded.in, columns}));
  tensors.insert_or_assign(path + ".qzeros", Tensor::from(zeros, {coded.groups(), columns}));
  tensors.insert_or_assign(path + ".scales", transposed_scales(coded));
}

void pack_mlx(const Coded& coded, const std::string& path, io::TensorMap& tensors) {
  const Shape of_groups{coded.out, coded.groups()};
  const Tensor words = packed_along_inputs(coded).transpose(0, 1);
  tensors.insert_or_assign(path + ".weight", words.to(DType::u32).clone());
  tensors.insert_or_assign(path + ".scales", Tensor::from(coded.scales, of_groups).to(DType::f16));
  tensors.insert_or_assign(path + ".biases", Tensor::from(coded.offsets, of_groups).to(DType::f16));
}

/// Two folders of the tiny Llama: one whose projections are packed, one with their values.
class PackedFolder {
 public:
  using Pack = std::function<Tensor(const std::string& path, const Shape& shape, io::TensorMap& tensors)>;
  PackedFolder(const nlohmann::json& description, const Pack& pack) {
    const std::filesystem::path source = test::test_data("lm") / "llama";
    fill(nlohmann::json::parse(test::read_whole_file(source / "config.json")),
         io::load_weights((source / "model.safetensors").string()), description, pack);
  }
  /// Of a model with random weights.
  PackedFolder(const nlohmann::json& config, const nlohmann::json& description, const Pack& pack) {
    io::TensorMap given;
    for (const auto& [name, tensor] : create_language_model(config.dump(), "config.json")->state_dict())
      given.emplace(name, tensor);
    fill(config, given, description, pack);
  }
  std::string path(const std::string& name) const { return folder_.path(name); }
  /// The packed model is that of the values, whether its weights stay packed, all in this encoding, or not. Those whose
  /// inputs are no multiple of 128 are in `narrow`.
  void expect_equal(Encoding encoding) const { expect_equal(encoding, encoding); }
  void expect_equal(Encoding encoding, Encoding narrow) const {
    const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 5, 9, 200}, {1, 4});
    const std::uint64_t wanted = load_language_model(path("dense"))->forward(ids).hash();
    for (const bool packed : {true, false}) {
      const auto model = load_language_model(path("packed"), Device{}, {.packed = packed});
      EXPECT_EQ(model->forward(ids).hash(), wanted) << packed;
      for (const auto& [name, tensor] : model->state_dict()) {
        if (!name.ends_with("_proj.weight")) continue;
        const Encoding held = tensor.size(1) % 128 == 0 ? encoding : narrow;
        EXPECT_EQ(tensor.encoding(), packed ? held : Encoding::dense) << name;
      }
    }
  }

 private:
  void fill(const nlohmann::json& config, const io::TensorMap& given, const nlohmann::json& description,
            const Pack& pack) {
    io::TensorMap packed = given;
    io::TensorMap dense = given;
    for (const auto& [name, tensor] : given) {
      if (!name.ends_with("_proj.weight")) continue;
      const std::string path = name.substr(0, name.size() - std::string(".weight").size());
      packed.erase(name);
      dense.insert_or_assign(name, pack(path, tensor.shape(), packed));
    }
    write("packed", config, description, packed);
    write("dense", config, nlohmann::json::object(), dense);
  }
  void write(const std::string& name, nlohmann::json config, const nlohmann::json& description,
             const io::TensorMap& tensors) {
    std::filesystem::create_directory(path(name));
    config.update(description);
    folder_.write(name + "/config.json", config.dump());
    io::save_safetensors(path(name + "/model.safetensors"), tensors);
  }
  test::TemporaryFolder folder_;
};

TEST(PackedFolders, Gptq) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("lm"));
  std::mt19937 random(1);
  // Zeros of 8 bits leave differences of 9 bits.
  for (const auto& [bits, encoding] : {std::pair(2, Encoding::q4_0), std::pair(3, Encoding::q4_0),
                                       std::pair(4, Encoding::q5_0), std::pair(8, Encoding::dense)}) {
    for (const bool second : {false, true}) {
      nlohmann::json description = {{"quant_method", "gptq"}, {"bits", bits}, {"group_size", 32}};
      if (second) description["checkpoint_format"] = "gptq_v2";
      PackedFolder({{"quantization_config", description}}, [&](const std::string& path, const Shape& shape,
                                                               io::TensorMap& tensors) {
        const Coded coded = random_codes(shape[0], shape[1], bits, random);
        pack_gptq(coded, path, tensors, second ? 0 : 1);
        return values_of(coded, minus_zero);
      }).expect_equal(encoding);
    }
  }
}

TEST(PackedFolders, GptqWithOneZero) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("lm"));
  std::mt19937 random(6);
  for (const auto& [bits, encoding] : {std::pair(4, Encoding::q4_0), std::pair(8, Encoding::q8_0)}) {
    PackedFolder({{"quantization_config", {{"quant_method", "gptq"}, {"bits", bits}, {"group_size", 32}}}},
                 [&](const std::string& path, const Shape& shape, io::TensorMap& tensors) {
                   Coded coded = random_codes(shape[0], shape[1], bits, random);
                   coded.zeros.assign(coded.zeros.size(), 1 << (bits - 1));
                   pack_gptq(coded, path, tensors, 1);
                   return values_of(coded, minus_zero);
                 })
        .expect_equal(encoding);
  }
}

TEST(PackedFolders, GptqWhoseGroupsAreScattered) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("lm"));
  std::mt19937 random(7);
  PackedFolder({{"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}, {"desc_act", true}}}},
               [&](const std::string& path, const Shape& shape, io::TensorMap& tensors) {
                 const Coded coded = random_codes(shape[0], shape[1], 4, random);
                 pack_gptq(coded, path, tensors, 1);
                 std::vector<std::int32_t> groups;
                 for (std::int64_t i = 0; i < coded.in; ++i)
                   groups.push_back(static_cast<std::int32_t>(i % coded.groups()));
                 tensors.insert_or_assign(path + ".g_idx", Tensor::from(groups, {coded.in}));
                 std::vector<float> values;
                 for (std::int64_t o = 0; o < coded.out; ++o) {
                   for (std::int64_t i = 0; i < coded.in; ++i) {
                     values.push_back(minus_zero(coded, coded.at(o, i), coded.at_group(o, i % coded.groups())));
                   }
                 }
                 return Tensor::from(values, shape);
               })
      .expect_equal(Encoding::dense);
}

TEST(PackedFolders, Awq) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("lm"));
  std::mt19937 random(2);
  PackedFolder(
      {{"quantization_config", {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}, {"version", "gemm"}}}},
      [&](const std::string& path, const Shape& shape, io::TensorMap& tensors) {
        const Coded coded = random_codes(shape[0], shape[1], 4, random);
        pack_awq(coded, path, tensors);
        return values_of(coded, minus_zero);
      })
      .expect_equal(Encoding::q5_0);
}

TEST(PackedFolders, Mlx) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("lm"));
  std::mt19937 random(3);
  for (const auto& [bits, encoding] :
       {std::pair(2, Encoding::q4_1), std::pair(3, Encoding::q4_1), std::pair(4, Encoding::q4_1),
        std::pair(5, Encoding::q5_1), std::pair(6, Encoding::dense), std::pair(8, Encoding::dense)}) {
    PackedFolder({{"quantization", {{"group_size", 32}, {"bits", bits}}}}, [&](const std::string& path,
                                                                               const Shape& shape,
                                                                               io::TensorMap& tensors) {
      const Coded coded = random_codes(shape[0], shape[1], bits, random);
      pack_mlx(coded, path, tensors);
      return values_of(coded, plus_offset);
    }).expect_equal(encoding);
  }
}

TEST(PackedFolders, MlxWithLayersOfTheirOwn) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("lm"));
  std::mt19937 random(8);
  json description = {{"group_size", 32}, {"bits", 3}, {"lm_head", false}};
  for (int layer = 0; layer < 2; ++layer) {
    description[fmt::format("model.layers.{}.mlp.down_proj", layer)] = {{"group_size", 64}, {"bits", 2}};
  }
  PackedFolder({{"quantization", description}}, [&](const std::string& path, const Shape& shape,
                                                    io::TensorMap& tensors) {
    const bool own = path.ends_with("down_proj");
    const Coded coded = random_codes(shape[0], shape[1], own ? 2 : 3, random, own ? 64 : 32);
    pack_mlx(coded, path, tensors);
    return values_of(coded, plus_offset);
  }).expect_equal(Encoding::q4_1);
}

TEST(PackedFolders, CompressedTensors) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("lm"));
  std::mt19937 random(9);
  const json packed = {{"quantization_config", {{"quant_method", "compressed-tensors"}, {"format", "pack-quantized"}}}};
  struct Case {
    int bits;
    bool zeros;
    Encoding encoding;
  };
  for (const Case& c : {Case{4, false, Encoding::q4_0}, {4, true, Encoding::q5_0}, {8, false, Encoding::q8_0}}) {
    PackedFolder(packed, [&](const std::string& path, const Shape& shape, io::TensorMap& tensors) {
      Coded coded = random_codes(shape[0], shape[1], c.bits, random);
      if (!c.zeros) coded.zeros.assign(coded.zeros.size(), 1 << (c.bits - 1));
      pack_compressed(coded, path, tensors, c.zeros);
      return values_of(coded, minus_zero);
    }).expect_equal(c.encoding);
  }
  const json whole = {{"quantization_config", {{"quant_method", "compressed-tensors"}, {"format", "int-quantized"}}}};
  for (const bool each : {true, false}) {
    PackedFolder(whole, [&](const std::string& path, const Shape& shape, io::TensorMap& tensors) {
      const Coded coded = random_codes(shape[0], shape[1], 8, random);
      std::vector<std::int8_t> bytes;
      for (const int code : coded.codes) bytes.push_back(static_cast<std::int8_t>(code - 128));
      const Tensor weight = Tensor::from(bytes, shape);
      const Tensor scale =
          each ? Tensor::from(coded.scales, {shape[0], coded.groups()}).narrow(1, 0, 1).clone() : full({1}, 0.015625);
      tensors.insert_or_assign(path + ".weight", weight);
      tensors.insert_or_assign(path + ".weight_scale", scale.to(DType::f16));
      return weight.to(DType::f32) * scale;
    }).expect_equal(Encoding::q8_0);
  }
}

/// Random floats of 8 bits, and how their scales lie: of the tensor, of rows, or of blocks of 128 x 128.
Tensor pack_fp8(const std::string& form, DType dtype, const std::string& path, const Shape& shape,
                io::TensorMap& tensors, std::mt19937& random) {
  const std::int64_t tall = form == "tensor" ? shape[0] : form == "rows" ? 1 : 128;
  const std::int64_t wide = form == "blocks" ? 128 : shape[1];
  const Shape of_scales{(shape[0] + tall - 1) / tall, (shape[1] + wide - 1) / wide};
  std::vector<float> scales;
  for (std::int64_t i = 0; i < of_scales.numel(); ++i) scales.push_back(0.01F + static_cast<float>(i) * 1e-4F);
  std::vector<std::uint8_t> bytes;
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    const auto byte =
        static_cast<std::uint8_t>(random() % (dtype == DType::f8e4m3 ? 0x70 : 0x48) | (random() % 2) << 7);
    bytes.push_back(byte);
    const float scale = scales[static_cast<std::size_t>(i / shape[1] / tall * of_scales[1] + i % shape[1] / wide)];
    values.push_back((dtype == DType::f8e4m3 ? to_f32(Float8E4M3{byte}) : to_f32(Float8E5M2{byte})) * scale);
  }
  tensors.insert_or_assign(path + ".weight", Tensor::from_bytes(bytes.data(), bytes.size(), shape, dtype));
  tensors.insert_or_assign(path + (form == "blocks" ? ".weight_scale_inv" : ".weight_scale"),
                           Tensor::from(scales, form == "tensor" ? Shape{} : of_scales));
  tensors.insert_or_assign(path + ".input_scale", Tensor::from(std::vector<float>{0.5F}, Shape{}));
  return Tensor::from(values, shape);
}

const nlohmann::json kWideLlama = {{"model_type", "llama"},    {"hidden_size", 256},
                                   {"intermediate_size", 384}, {"num_attention_heads", 4},
                                   {"num_key_value_heads", 2}, {"num_hidden_layers", 2},
                                   {"vocab_size", 256},        {"max_position_embeddings", 64},
                                   {"rms_norm_eps", 1e-5},     {"rope_theta", 10000.0},
                                   {"hidden_act", "silu"},     {"attention_bias", false},
                                   {"mlp_bias", false},        {"tie_word_embeddings", false}};

TEST(PackedFolders, Fp8WithScales) {
  std::mt19937 random(4);
  struct Case {
    const char *method, *form;
    DType dtype;
    Encoding encoding;
  };
  for (const Case& c : {Case{"fp8", "tensor", DType::f8e4m3, Encoding::e4m3_rows},
                        {"fbgemm_fp8", "rows", DType::f8e4m3, Encoding::e4m3_rows},
                        {"fp8", "blocks", DType::f8e4m3, Encoding::e4m3_squares},
                        {"fp8", "blocks", DType::f8e5m2, Encoding::e5m2},
                        {"compressed-tensors", "rows", DType::f8e4m3, Encoding::e4m3_rows},
                        {"modelopt", "tensor", DType::f8e4m3, Encoding::e4m3_rows}}) {
    SCOPED_TRACE(std::string(c.method) + " " + c.form);
    PackedFolder(
        kWideLlama,
        {{"quantization_config", {{"quant_method", c.method}, {"format", "float-quantized"}, {"quant_algo", "FP8"}}}},
        [&](const std::string& path, const Shape& shape, io::TensorMap& tensors) {
          return pack_fp8(c.form, c.dtype, path, shape, tensors, random);
        })
        .expect_equal(c.encoding);
  }
}

TEST(PackedFolders, Fp8InNoWholeBlocksBecomesDense) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("lm"));
  std::mt19937 random(4);
  for (const char* form : {"tensor", "rows", "blocks"}) {
    PackedFolder({{"quantization_config", {{"quant_method", "fp8"}}}}, [&](const std::string& path, const Shape& shape,
                                                                           io::TensorMap& tensors) {
      return pack_fp8(form, DType::f8e4m3, path, shape, tensors, random);
    }).expect_equal(Encoding::e4m3_rows, Encoding::dense);
  }
}

TEST(PackedFolders, RefuseFp8ScalesThatDoNotFit) {
  std::mt19937 random(4);
  const auto error_of = [&](const Tensor& scales) {
    const PackedFolder folder(kWideLlama, {{"quantization_config", {{"quant_method", "fp8"}}}},
                              [&](const std::string& path, const Shape& shape, io::TensorMap& tensors) {
                                const Tensor values = pack_fp8("tensor", DType::f8e4m3, path, shape, tensors, random);
                                tensors.insert_or_assign(path + ".weight_scale", scales);
                                return values;
                              });
    return message_of<FormatError>([&] { load_language_model(folder.path("packed")); });
  };
  EXPECT_THAT(error_of(full({3, 5}, 1)), testing::AllOf(HasSubstr("weight_scale"), HasSubstr("[3, 5]")));
  EXPECT_THAT(error_of(full({1, 1, 1}, 1)), HasSubstr("[1, 1, 1]"));
  EXPECT_THAT(error_of(full({}, std::numeric_limits<double>::quiet_NaN())), HasSubstr("no number"));
  EXPECT_THAT(error_of(full({}, std::numeric_limits<double>::infinity())), HasSubstr("no number"));
  EXPECT_THAT(error_of(full({}, 1, {.dtype = DType::i32})), HasSubstr("no float"));
}

TEST(PackedFolders, RefuseWhatDoesNotFit) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("lm"));
  const auto keep = [](const std::string& path, const Shape& shape, io::TensorMap& tensors) {
    const Tensor values = zeros(shape);
    tensors.insert_or_assign(path + ".weight", values);
    return values;
  };
  const auto error_of = [&](const nlohmann::json& description) {
    const PackedFolder folder({{"quantization_config", description}}, keep);
    return message_of<FormatError>([&] { load_language_model(folder.path("packed")); });
  };
  EXPECT_THAT(error_of({{"quant_method", "bitsandbytes"}}), HasSubstr("bitsandbytes"));
  EXPECT_THAT(error_of({{"quant_method", "gptq"}, {"bits", 7}}), HasSubstr("7 bits"));
  EXPECT_THAT(error_of({{"quant_method", "gptq"}, {"bits", 4}, {"checkpoint_format", "marlin"}}), HasSubstr("marlin"));
  EXPECT_THAT(error_of({{"quant_method", "compressed-tensors"}, {"format", "nvfp4-pack-quantized"}}),
              HasSubstr("nvfp4-pack-quantized"));
  EXPECT_THAT(error_of({{"quant_method", "awq"}, {"bits", 4}, {"version", "gemv"}}), HasSubstr("gemv"));
  std::mt19937 random(5);
  const PackedFolder broken({{"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}}}},
                            [&](const std::string& path, const Shape& shape, io::TensorMap& tensors) {
                              const Coded coded = random_codes(shape[0], shape[1], 4, random);
                              pack_gptq(coded, path, tensors, 1);
                              tensors.insert_or_assign(path + ".g_idx", full({shape[1]}, 77, {.dtype = DType::i32}));
                              return values_of(coded, minus_zero);
                            });
  EXPECT_THAT(message_of<FormatError>([&] { load_language_model(broken.path("packed")); }),
              HasSubstr("names the group 77"));
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{64}, {64, 1}, {64, 0}, {64, -5}, {64, 1 << 30}}) {
    const PackedFolder folder(
        {{"quantization_config", {{"quant_method", "compressed-tensors"}, {"format", "pack-quantized"}}}},
        [&](const std::string& path, const Shape& shape, io::TensorMap& tensors) {
          const Coded coded = random_codes(shape[0], shape[1], 4, random);
          pack_compressed(coded, path, tensors, false);
          tensors.insert_or_assign(path + ".weight_shape",
                                   Tensor::from(sizes, {static_cast<std::int64_t>(sizes.size())}));
          return values_of(coded, minus_zero);
        });
    EXPECT_THAT(message_of<FormatError>([&] { load_language_model(folder.path("packed")); }),
                HasSubstr("weight_shape"));
  }
}

}  // namespace
}  // namespace lockstep::models
