// quantize_gguf and quantize.
#include <cmath>
#include <csignal>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>
#include <lockstep/io/gguf.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/io/weights.h>
#include <lockstep/ops.h>

#include "core/os.h"
#include "support/data.h"
#include "support/files.h"

namespace lockstep::io {
namespace {

using test::message_of;
using test::TemporaryFolder;
using testing::HasSubstr;

Tensor waves(const Shape& shape, float step) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i) * step);
  return Tensor::from(values, shape);
}

std::string bytes_of_entry(const std::string& file, const TensorEntry& entry) {
  return test::read_whole_file(file).substr(entry.offset, entry.bytes);
}

// The published files of one model: the package gguf has made the packed ones of the dense one.
TEST(GgufQuantize, MakesThePublishedBlocks) {
  const auto data = test::test_data("tinyllm");
  LOCKSTEP_REQUIRE_DATA(data);
  const TemporaryFolder folder;
  for (const auto& [type, published, packed] :
       {std::tuple{"Q8_0", "stories260K-q8_0.gguf", 31}, {"Q4_0", "stories260K-q4_0.gguf", 31}}) {
    const std::string output = folder.path(published);
    quantize_gguf((data / "stories260K-f32.gguf").string(), output, type);
    const FileListing ours = list_tensors(output);
    const FileListing theirs = list_tensors((data / published).string());
    ASSERT_EQ(ours.tensors.size(), theirs.tensors.size());
    int compared = 0;
    for (std::size_t i = 0; i < ours.tensors.size(); ++i) {
      ASSERT_EQ(ours.tensors[i].name, theirs.tensors[i].name);
      if (theirs.tensors[i].encoding.empty()) continue;
      EXPECT_EQ(ours.tensors[i].encoding, type) << ours.tensors[i].name;
      EXPECT_EQ(bytes_of_entry(output, ours.tensors[i]), bytes_of_entry((data / published).string(), theirs.tensors[i]))
          << ours.tensors[i].name;
      ++compared;
    }
    EXPECT_EQ(compared, packed);
  }
}

TEST(GgufQuantize, PacksWeightsAndKeepsTheRest) {
  const TemporaryFolder folder;
  const TensorMap tensors = {{"blk.0.attn_norm.weight", waves({2, 32}, 0.3f)},
                             {"blk.0.attn_q.bias", waves({32}, 0.4f)},
                             {"blk.0.attn_q.weight", waves({2, 64}, 0.5f)},
                             {"blk.0.ffn_gate_inp.weight", waves({2, 32}, 0.5f)},
                             {"blk.0.ffn_up.weight", waves({3, 2, 32}, 0.6f).to(DType::bf16)},
                             {"half.weight", waves({2, 32}, 0.7f).to(DType::f16)},
                             {"odd.weight", waves({2, 33}, 0.8f)},
                             {"output_norm.weight", waves({32}, 0.9f)},
                             {"position_embd.weight", waves({2, 32}, 0.9f)}};
  save_gguf(folder.path("in.gguf"), tensors, {{"general.architecture", "llama"}, {"general.file_type", 0u}});
  const auto report = quantize_gguf(folder.path("in.gguf"), folder.path("out.gguf"), "Q5_1");
  const FileListing listing = list_tensors(folder.path("out.gguf"));
  EXPECT_EQ(
      listing.metadata,
      (Metadata{{"general.architecture", "llama"}, {"general.file_type", 9u}, {"general.quantization_version", 2u}}));
  const TensorMap found = load_weights(folder.path("out.gguf"));
  std::vector<std::string> packed;
  for (std::size_t i = 0; i < report.size(); ++i) {
    EXPECT_EQ(report[i].bytes_after, listing.tensors[i].bytes);
    if (report[i].to != report[i].from) {
      EXPECT_EQ(report[i].to, "Q5_1");
      EXPECT_EQ(listing.tensors[i].encoding, "Q5_1");
      EXPECT_LE(amax(abs(found.at(report[i].name) - tensors.at(report[i].name).to(DType::f32))).item<float>(), 0.034f);
      packed.push_back(report[i].name);
    } else {
      EXPECT_EQ(found.at(report[i].name).hash(), tensors.at(report[i].name).hash()) << report[i].name;
    }
  }
  EXPECT_EQ(packed, (std::vector<std::string>{"blk.0.attn_q.weight", "blk.0.ffn_up.weight", "half.weight"}));
  // In place, and again: what has the type already stays as it is.
  quantize_gguf(folder.path("out.gguf"), folder.path("out.gguf"), "Q5_1");
  EXPECT_EQ(load_weights(folder.path("out.gguf")).at("half.weight").hash(), found.at("half.weight").hash());
}

// llama.cpp's: more for the output, for values and feed-forward outputs of the first and last layers and every third
// one between; blocks of 32 where rows are no whole blocks of 256.
TEST(GgufQuantize, MixturesKeepMoreOfSomeWeights) {
  const TemporaryFolder folder;
  const std::string in = folder.path("in.gguf");
  const Tensor wide = waves({2, 256}, 0.3f);
  TensorMap tensors = {{"token_embd.weight", wide},
                       {"output.weight", wide},
                       {"output_norm.weight", waves({256}, 1)},
                       {"blk.3.attn_qkv.weight", wide},
                       {"blk.3.attn_k.weight", waves({2, 96}, 0.2f)}};
  for (int layer = 0; layer < 16; ++layer) {
    for (const char* name : {"attn_v", "ffn_down", "ffn_up"}) {
      tensors.emplace(fmt::format("blk.{}.{}.weight", layer, name), wide);
    }
  }
  save_gguf(in, tensors);
  const auto types = [&](const char* recipe) {
    std::map<std::string, std::string> result;
    for (const QuantizedTensor& tensor : quantize_gguf(in, folder.path("out.gguf"), recipe))
      result[tensor.name] = tensor.to;
    return result;
  };
  for (const auto& [recipe, usual, fused, narrow, number] :
       {std::tuple{"Q4_K_M", "Q4_K", "Q5_K", "Q5_0", 15u}, {"Q5_K_M", "Q5_K", "Q6_K", "Q5_1", 17u}}) {
    auto found = types(recipe);
    EXPECT_EQ(list_tensors(folder.path("out.gguf")).metadata.at("general.file_type"), MetadataValue(number));
    EXPECT_EQ(found.at("output.weight"), "Q6_K");
    EXPECT_EQ(found.at("token_embd.weight"), usual);
    EXPECT_EQ(found.at("output_norm.weight"), "F32");
    EXPECT_EQ(found.at("blk.3.attn_qkv.weight"), fused);
    EXPECT_EQ(found.at("blk.3.attn_k.weight"), narrow);
    const std::set<int> more = {0, 1, 4, 7, 10, 13, 14, 15};
    for (int layer = 0; layer < 16; ++layer) {
      const std::string better = more.contains(layer) ? "Q6_K" : usual;
      EXPECT_EQ(found.at(fmt::format("blk.{}.attn_v.weight", layer)), better) << layer;
      EXPECT_EQ(found.at(fmt::format("blk.{}.ffn_down.weight", layer)), better) << layer;
      EXPECT_EQ(found.at(fmt::format("blk.{}.ffn_up.weight", layer)), usual) << layer;
    }
  }
  tensors.erase("output.weight");
  save_gguf(in, tensors);
  EXPECT_EQ(types("Q4_K_M").at("token_embd.weight"), "Q6_K");  // is the output, too
  EXPECT_EQ(types("Q6_K").at("blk.3.attn_k.weight"), "Q8_0");
  EXPECT_EQ(types("Q3_K").at("blk.3.attn_k.weight"), "Q4_0");
  EXPECT_EQ(types("IQ4_XS").at("blk.3.attn_k.weight"), "IQ4_NL");
  // Every type decodes to what was there, more or less.
  for (const std::string& type : quantizable_types()) {
    types(type.c_str());
    const Tensor again = load_weights(folder.path("out.gguf")).at("blk.2.ffn_up.weight");
    EXPECT_LE(amax(abs(again - wide)).item<float>(), 0.45f) << type;
  }
}

TEST(GgufQuantize, SaysWhatItCannotDo) {
  const TemporaryFolder folder;
  const std::string in = folder.path("in.gguf");
  const std::string out = folder.path("out.gguf");
  std::vector<float> values(64, 1.0f);
  values[33] = std::numeric_limits<float>::infinity();
  save_gguf(in, {{"a.weight", Tensor::from(values, {2, 32})}});
  const auto refusal = [&](const std::string& file, const char* type) {
    return message_of<ValueError>([&] { quantize_gguf(file, out, type); });
  };
  EXPECT_THAT(refusal(in, "IQ2_S"), HasSubstr("no quantiser writes blocks of IQ2_S; there are those of Q4_0, Q4_1"));
  EXPECT_THAT(refusal(in, "Q8_0"), HasSubstr("tensor \"a.weight\": Q8_0 holds finite values; element 33"));
  save_gguf(in, {{"a.weight", waves({2, 32}, 1.0f)}});
  quantize_gguf(in, folder.path("q8.gguf"), "Q8_0");
  EXPECT_THAT(refusal(folder.path("q8.gguf"), "Q4_0"), HasSubstr("\"a.weight\" is packed already (Q8_0)"));
  save_safetensors(in, {{"a.weight", waves({2, 32}, 1.0f)}});
  EXPECT_THAT(message_of<FormatError>([&] { quantize_gguf(in, out, "Q8_0"); }),
              HasSubstr("a GGUF file is wanted; it is a safetensors file"));
  EXPECT_THROW(quantize_gguf(folder.path("none.gguf"), out, "Q8_0"), IoError);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"in.gguf", "q8.gguf"}));
}

TEST(Quantize, PacksATensorAsFilesDo) {
  const TemporaryFolder folder;
  const Tensor weight = waves({4, 96}, 0.37f);
  save_gguf(folder.path("in.gguf"), {{"a.weight", weight}});
  quantize_gguf(folder.path("in.gguf"), folder.path("out.gguf"), "Q8_0");
  const Tensor packed = quantize(weight, Encoding::q8_0);
  EXPECT_EQ(packed.encoding(), Encoding::q8_0);
  EXPECT_EQ(dequantize(packed).hash(), load_weights(folder.path("out.gguf")).at("a.weight").to(packed.dtype()).hash());
}

TEST(Quantize, RefusesWhatHasNoBlocks) {
  const auto shape_error = [](const Tensor& values) {
    return message_of<ShapeError>([&] { quantize(values, Encoding::q8_0); });
  };
  EXPECT_THAT(shape_error(zeros({2, 33})), HasSubstr("rows of [2, 33] are no blocks of 32 elements (q8_0)"));
  EXPECT_THAT(shape_error(zeros({})), HasSubstr("no blocks of 32"));
  EXPECT_THROW(quantize(zeros({32}, {.dtype = DType::i32}), Encoding::q8_0), DTypeError);
  EXPECT_THROW(quantize(quantize(zeros({32}), Encoding::q8_0), Encoding::q8_0), DTypeError);
  EXPECT_THROW(quantize(full({32}, std::nan("")), Encoding::q8_0), ValueError);
  EXPECT_THROW(quantize(zeros({32}), Encoding::dense), ValueError);
  EXPECT_THROW(quantize(Tensor(), Encoding::q8_0), ValueError);
}

// Of the first file alone a model would lack weights, and its metadata would speak of files that are not there.
TEST(GgufQuantize, SplitFilesBecomeOne) {
  const TemporaryFolder folder;
  const auto write = [&](int number, const TensorMap& tensors, int count = 2, int all = 3) {
    save_gguf(folder.path("m-0000" + std::to_string(number + 1) + "-of-00002.gguf"), tensors,
              {{"general.architecture", "llama"},
               {"split.no", static_cast<std::uint16_t>(number)},
               {"split.count", static_cast<std::uint16_t>(count)},
               {"split.tensors.count", all}});
  };
  const TensorMap first = {{"blk.0.ffn_up.weight", waves({4, 64}, 0.1F)}, {"output_norm.weight", waves({64}, 0.2F)}};
  const TensorMap second = {{"blk.1.ffn_up.weight", waves({4, 64}, 0.3F)}};
  write(0, first);
  write(1, second);
  const std::string input = folder.path("m-00001-of-00002.gguf");
  const std::string output = folder.path("out.gguf");
  EXPECT_EQ(quantize_gguf(input, output, "Q8_0").size(), 3U);
  TensorMap all = first;
  all.insert(second.begin(), second.end());
  save_gguf(folder.path("whole.gguf"), all, {{"general.architecture", "llama"}});
  quantize_gguf(folder.path("whole.gguf"), folder.path("wanted.gguf"), "Q8_0");
  EXPECT_EQ(list_tensors(output).metadata, list_tensors(folder.path("wanted.gguf")).metadata);
  const TensorMap found = load_weights(output);
  for (const auto& [name, tensor] : load_weights(folder.path("wanted.gguf")))
    EXPECT_EQ(found.at(name).hash(), tensor.hash()) << name;

  const auto error = [&] {
    return message_of<FormatError>([&] { quantize_gguf(input, folder.path("no.gguf"), "Q8_0"); });
  };
  EXPECT_THAT(message_of<FormatError>([&] { quantize_gguf(folder.path("m-00002-of-00002.gguf"), output, "Q8_0"); }),
              HasSubstr("give the first one"));
  write(0, first, 2, 4);
  EXPECT_THAT(error(), HasSubstr("split.tensors.count: the files have 3 tensors"));
  write(0, first);
  write(1, second, 3);
  EXPECT_THAT(error(), HasSubstr("m-00002-of-00002.gguf: split.count: is not 2"));
  std::filesystem::remove(folder.path("m-00002-of-00002.gguf"));
  EXPECT_THAT(message_of<IoError>([&] { quantize_gguf(input, folder.path("no.gguf"), "Q8_0"); }),
              HasSubstr("m-00002-of-00002.gguf"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("no.gguf")));
}

TEST(GgufQuantize, LeavesNothingBehindWhereItIsStopped) {
  const TemporaryFolder folder;
  const std::string input = folder.path("in.gguf");
  save_gguf(input, {{"blk.0.ffn_up.weight", waves({4, 64}, 0.1F)}});
  {
    const os::StopRequest stop("");
    std::raise(SIGINT);
    EXPECT_THAT(message_of<IoError>([&] { quantize_gguf(input, folder.path("out.gguf"), "Q8_0"); }),
                HasSubstr("out.gguf: not written: stopped by SIGINT"));
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"in.gguf"});
  quantize_gguf(input, folder.path("out.gguf"), "Q8_0");  // the request is over
}

}  // namespace
}  // namespace lockstep::io
