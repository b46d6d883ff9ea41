#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <lockstep/autograd.h>
#include <lockstep/io/onnx.h>
#include <lockstep/io/weights.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>

#include "io/raw_tensor.h"
#include "io/zip_archive.h"
#include "support/data.h"
#include "support/files.h"
#include "support/onnx_suite.h"
#include "support/tensors.h"

namespace lockstep::io {
namespace {

using lockstep::test::message_of;
using lockstep::test::repository_data;
using lockstep::test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string case_path(const std::string& name) {
  return (repository_data("onnx") / name / "model.onnx").string();
}

// The corpus of the fuzzer: what loads and takes nothing is run, too. Its numbers are as large as a file can have them.
TEST(Onnx, HostileModelsEndInErrorsAlsoWhereTheyRun) {
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_SOURCE_DIR "/fuzz/corpus/onnx")) {
    SCOPED_TRACE(entry.path().filename());
    ++models;
    try {
      const std::unique_ptr<OnnxModel> model = load_onnx(entry.path().string());
      const std::vector<OnnxValue> inputs = model->inputs();
      if (std::any_of(inputs.begin(), inputs.end(), [](const OnnxValue& value) { return value.required; })) continue;
      for (const auto& [name, value] : model->run({})) value.eval();
    } catch (const Error&) {
    }
  }
  EXPECT_GE(models, 70);
}

// Outputs are those of ONNX's reference evaluator: tools/onnx_suite.py small.
TEST(Onnx, SmallModelsAnswerAsTheReference) {
  const std::vector<std::string> cases = test::onnx_cases(repository_data("onnx").string());
  EXPECT_GE(cases.size(), 10U);
  for (const std::string& folder : cases) {
    const test::CaseResult result = test::run_onnx_case(folder, Device{});
    EXPECT_EQ(result.status, test::CaseStatus::pass) << result.name << ": " << result.reason;
  }
}

TEST(Onnx, SmallModelsHaveTheSameBitsOnEveryDevice) {
  for (const std::string& folder : test::onnx_cases(repository_data("onnx").string())) {
    const std::uint64_t hash = test::run_onnx_case(folder, Device{}).hash;
    for (const Device device : test_devices()) EXPECT_EQ(test::run_onnx_case(folder, device).hash, hash) << folder;
  }
}

// What tools/onnx_contrib.py asked ONNX Runtime: operators of its own, and what the conformance cases lack.
TEST(Onnx, OperatorsOfOnnxRuntimeAnswerAsItDoesOnEveryDevice) {
  const TemporaryFolder folder;
  const ZipArchive archive(open_file(repository_data("onnx_contrib.zip").string(), {}));
  for (const ZipEntry& entry : archive.entries()) {
    const std::span<const std::byte> data = archive.data(entry, true);
    std::filesystem::create_directories(std::filesystem::path(folder.path(entry.name)).parent_path());
    folder.write(entry.name, std::string_view(reinterpret_cast<const char*>(data.data()), data.size()));
  }
  const std::vector<std::string> cases = test::onnx_cases(folder.path(""));
  EXPECT_GE(cases.size(), 45U);
  for (const std::string& path : cases) {
    const test::CaseResult result = test::run_onnx_case(path, Device{});
    EXPECT_EQ(result.status, test::CaseStatus::pass) << result.name << ": " << result.reason;
    for (const Device device : test_devices()) {
      EXPECT_EQ(test::run_onnx_case(path, device).hash, result.hash) << result.name << " on " << device.to_string();
    }
  }
}

// The list of cases that do not pass is true in both directions. The cases are those that tools/onnx_suite.py nodes
// writes.
TEST(Onnx, ConformanceCasesPassOrAreListed) {
  const std::string root = test::made_data("onnx/nodes");
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "needs " << root << ": scripts/make_test_data makes it";
  const auto listed = test::read_case_list((repository_data("onnx_cases_that_do_not_pass.txt")).string());
  for (const std::string& folder : test::onnx_cases(root)) {
    const test::CaseResult result = test::run_onnx_case(folder, Device{});
    const bool passes = result.status == test::CaseStatus::pass;
    EXPECT_NE(passes, listed.contains(result.name))
        << result.name << (passes ? " passes and is listed" : ": " + result.reason);
  }
}

TEST(Onnx, IsAModuleWithTheExportersNames) {
  const auto model = load_onnx(case_path("convolution"));
  std::vector<std::string> parameters;
  for (const auto& [name, parameter] : model->named_parameters()) parameters.push_back(name);
  EXPECT_THAT(parameters, ElementsAre("conv.weight", "conv.bias", "bn.weight", "bn.bias", "fc.weight"));
  std::vector<std::string> buffers;
  for (const auto& [name, buffer] : model->named_buffers()) buffers.push_back(name);
  EXPECT_THAT(buffers, ElementsAre("bn.mean", "bn.var"));
  EXPECT_FALSE(model->training());
  const std::vector<OnnxValue> inputs = model->inputs();
  ASSERT_EQ(inputs.size(), 1U);
  EXPECT_EQ(inputs[0].type, "float");
  EXPECT_EQ((*inputs[0].shape)[0].symbol, "n");
  EXPECT_EQ((*inputs[0].shape)[1].size, 2);
}

TEST(Onnx, ForwardIsTheFirstOutputOfTheOnlyInput) {
  const auto model = load_onnx(case_path("linear"));
  const Tensor x = random_tensor({3, 4}, DType::f32, 1);
  EXPECT_BITS_EQ(model->forward(x), model->run({{"x", x}}).at("y"));
  const auto two = load_onnx(case_path("if_true"));
  EXPECT_THAT(message_of<ValueError>([&] { two->forward(x); }), HasSubstr("the model has 2 inputs"));
}

TEST(Onnx, LearnsByGradientsOfItsParameters) {
  const auto model = load_onnx(case_path("convolution"));
  optim::AdamW optimizer(model->parameters());
  const Tensor x = random_tensor({4, 2, 6, 6}, DType::f32, 2);
  const Tensor target = Tensor::from(std::vector<std::int64_t>{0, 1, 2, 3}, {4}, Device{});
  const auto loss = [&] { return nll_loss(log(model->forward(x)), target); };
  const float before = loss().item<float>();
  for (int step = 0; step < 20; ++step) {
    model->zero_grad();
    loss().backward();
    optimizer.step();
  }
  EXPECT_LT(loss().item<float>(), before);
}

TEST(Onnx, FoldingChangesNoBit) {
  for (const std::string& folder : test::onnx_cases(repository_data("onnx").string())) {
    const std::string path = folder + "/model.onnx";
    const auto folded = load_onnx(path);
    const auto plain = load_onnx(path, {.fold = false});
    const std::vector<OnnxValue> inputs = folded->inputs();
    if (inputs.size() != 1) continue;
    Shape shape;
    for (const OnnxSize& size : *inputs[0].shape) shape.push_back(size.size.value_or(2));
    const Tensor x = random_tensor(shape, DType::f32, 3);
    EXPECT_BITS_EQ(folded->forward(x), plain->forward(x));
  }
}

TEST(Onnx, InputsThatDoNotFitAreRefused) {
  const auto model = load_onnx(case_path("linear"));
  const Tensor x = zeros({2, 4});
  EXPECT_THAT(message_of<ValueError>([&] { model->run({}); }), HasSubstr("input \"x\" is missing"));
  EXPECT_THAT(message_of<ValueError>([&] {
                model->run({{"x", x}, {"z", x}});
              }),
              HasSubstr("the model has no input \"z\""));
  EXPECT_THAT(message_of<ShapeError>([&] { model->run({{"x", zeros({2, 5})}}); }), HasSubstr("size 1 must be 4"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                model->run({{"x", zeros({4})}});
              }),
              HasSubstr("the model takes 2 dimensions"));
  EXPECT_THAT(message_of<DTypeError>([&] {
                model->run({{"x", x.to(DType::f64)}});
              }),
              HasSubstr("the model takes float"));
}

TEST(Onnx, InitialisersLoadAsWeights) {
  const TensorMap weights = load_weights(case_path("linear"));
  EXPECT_EQ(weights.at("fc.weight").shape(), Shape({3, 4}));
  EXPECT_EQ(weights.at("fc.bias").shape(), Shape({3}));
}

// --- files that are written here
// ----------------------------------------------------------------------------------------------

std::string field(int number, const std::string& bytes) {
  std::string size;
  for (std::size_t left = bytes.size(); left >= 0x80 || size.empty() || left > 0; left >>= 7) {
    size += static_cast<char>((left & 0x7f) | (left >= 0x80 ? 0x80 : 0));
    if (left < 0x80) break;
  }
  return std::string{static_cast<char>(number << 3 | 2)} + size + bytes;
}
std::string number(int field_number, char value) {
  return {static_cast<char>(field_number << 3), value};
}
std::string node(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                 const std::string& more = {}) {
  std::string bytes;
  for (const std::string& input : inputs) bytes += field(1, input);
  for (const std::string& output : outputs) bytes += field(2, output);
  return field(1, bytes + field(4, op) + more);
}
std::string value(int list, const std::string& name) {
  return field(list, field(1, name));
}
std::string tensor(const std::string& name, char type, char size, const std::string& elements) {
  return field(5, number(1, size) + number(2, type) + field(8, name) + elements);
}
std::string float_tensor(const std::string& name, char size, const std::string& raw, const std::string& more = {}) {
  return tensor(name, 1, size, field(9, raw) + more);
}
std::string model_of(const std::string& graph, char ir = 8, char opset = 17) {
  return number(1, ir) + field(7, graph) + field(8, number(2, opset));
}
std::string plain_graph() {
  return node("Relu", {"x"}, {"y"}) + value(11, "x") + value(12, "y");
}

template <typename E = FormatError> std::string onnx_refusal(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string path = folder.write("model.onnx", bytes);
  return message_of<E>([&] { load_onnx(path); });
}

std::string integer_attribute(const std::string& name, char value) {
  return field(5, field(1, name) + number(3, value) + std::string("\xa0\x01\x02", 3));
}

TEST(Onnx, DropoutDrawsWhatItsSeedSaysWhereItTrains) {
  const TemporaryFolder folder;
  const std::string graph = node("Dropout", {"x", "ratio", "trains"}, {"y", "kept"}, integer_attribute("seed", 3)) +
                            value(11, "x") + value(11, "ratio") + value(11, "trains") + value(12, "y") +
                            value(12, "kept");
  const auto model = load_onnx(folder.write("model.onnx", model_of(graph)));
  const Tensor x = random_tensor({64, 64}, DType::f32, 5);
  const auto run = [&](bool trains) {
    return model->run({{"x", x}, {"ratio", full({}, 0.25)}, {"trains", full({}, trains, {.dtype = DType::boolean})}});
  };
  EXPECT_BITS_EQ(run(false).at("y"), x);
  const TensorMap outputs = run(true);
  const Tensor kept = outputs.at("kept");
  EXPECT_BITS_EQ(outputs.at("y"), where(kept, div(x, 0.75), zeros_like(x)));
  EXPECT_BITS_EQ(run(true).at("kept"), kept);
  EXPECT_NEAR(mean(kept.to(DType::f32)).item<float>(), 0.75, 0.03);
}

constexpr char kFloat4 = 23, kInt4 = 22, kInt2 = 26;

TEST(Onnx, ElementsOfLessThanAByteKeepTheirTypes) {
  const TemporaryFolder folder;
  const std::string two("\0\0\0\x40", 4);
  const std::string graph =
      tensor("w", kInt4, 5, field(9, "\x78\xf1\xf3")) +  // the last half byte belongs to no element
      tensor("zero", kInt2, 1, field(5, "\x01")) + float_tensor("two", 1, two) +
      node("DequantizeLinear", {"w", "two"}, {"wide"}) + node("Transpose", {"zero"}, {"point"}) +
      tensor("pads", 7, 2, field(7, std::string("\1\0", 2))) + node("Pad", {"point", "pads"}, {"padded"}) +
      node("DequantizeLinear", {"padded", "two"}, {"moved"}) +
      node("QuantizeLinear", {"x", "two", "point"}, {"least"}) +
      node("Cast", {"x"}, {"four"}, integer_attribute("to", kFloat4)) +
      node("Cast", {"given"}, {"floats"}, integer_attribute("to", 1)) + value(11, "x") +
      field(11, field(1, "given") + field(2, field(1, number(1, kInt4)))) + value(12, "wide") + value(12, "moved") +
      value(12, "least") + value(12, "four") + value(12, "floats");
  const std::string path = folder.write("model.onnx", model_of(graph));
  const auto model = load_onnx(path);
  const TensorMap outputs = model->run({{"x", Tensor::from(std::vector<float>{-9, 1, 2.5, 3, 100}, {5})},
                                        {"given", Tensor::from(std::vector<std::int8_t>{-8, -1, 7}, {3})}});
  EXPECT_THAT(outputs.at("wide").to_vector<float>(), ElementsAre(-16, 14, 2, -2, 6));
  EXPECT_THAT(outputs.at("moved").to_vector<float>(), ElementsAre(0, 2));
  EXPECT_THAT(outputs.at("least").to_vector<std::int8_t>(), ElementsAre(-2, 1, 1, 1, 1));
  EXPECT_THAT(outputs.at("four").to_vector<float>(), ElementsAre(-6, 1, 2, 3, 6));
  EXPECT_THAT(outputs.at("floats").to_vector<float>(), ElementsAre(-8, -1, 7));
  EXPECT_THAT(load_weights(path).at("w").to_vector<std::int8_t>(), ElementsAre(-8, 7, 1, -1, 3));

  const std::string sum = node("Add", {"w", "w"}, {"y"}) + tensor("w", kInt4, 2, field(9, "\x12")) + value(12, "y");
  EXPECT_THAT(onnx_refusal<UnsupportedError>(model_of(sum)), HasSubstr("Add-17 x1   numbers of less than a byte"));
  const std::string moved = node("Cast", {"x"}, {"four"}, integer_attribute("to", kFloat4)) +
                            node("Transpose", {"four"}, {"turned"}) + node("Relu", {"turned"}, {"y"}) + value(11, "x") +
                            value(12, "y");
  EXPECT_THAT(onnx_refusal<UnsupportedError>(model_of(moved)), HasSubstr("Relu-17 x1   numbers of less than a byte"));

  const auto given = [&](std::vector<std::int8_t> numbers) {
    return message_of<ValueError>([&] {
      const auto count = static_cast<std::int64_t>(numbers.size());
      model->run({{"x", zeros({5})}, {"given", Tensor::from(std::move(numbers), {count})}});
    });
  };
  for (int run = 0; run < 4; ++run) EXPECT_EQ(given({7}), "no error");  // also when runs repeat
  EXPECT_EQ(given({8}), "input \"given\" has numbers that int4 has not: they are -8 to 7");
  EXPECT_THAT(given({-9, 0}), HasSubstr("-8 to 7"));
}

// --- files that are wrong
// ----------------------------------------------------------------------------------------------

TEST(OnnxMalformed, TheSmallestModelLoads) {
  const TemporaryFolder folder;
  const auto model = load_onnx(folder.write("model.onnx", model_of(plain_graph())));
  EXPECT_BITS_EQ(model->forward(Tensor::from(std::vector<float>{-1, 2}, {2})),
                 Tensor::from(std::vector<float>{0, 2}, {2}));
}

TEST(OnnxMalformed, EveryTruncationIsAFormatError) {
  const TemporaryFolder folder;
  const std::string whole = test::read_whole_file(case_path("function"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string path = folder.write("model.onnx", whole.substr(0, size));
    EXPECT_NE(message_of<Error>([&] { load_onnx(path); }), "no error") << size;
  }
}

TEST(OnnxMalformed, MessagesAreChecked) {
  EXPECT_THAT(onnx_refusal(model_of(plain_graph(), 2)), HasSubstr("IR version 2; 3 to 14 are read"));
  EXPECT_THAT(onnx_refusal(model_of(plain_graph(), 15)), HasSubstr("IR version 15"));
  EXPECT_THAT(onnx_refusal(number(1, 8) + field(8, number(2, 17))), HasSubstr("has no graph"));
  EXPECT_THAT(onnx_refusal(number(1, 8) + field(7, plain_graph())), HasSubstr("states no operator set"));
  EXPECT_THAT(onnx_refusal(model_of(plain_graph()) + field(7, plain_graph())), HasSubstr("has field 7 twice"));
  EXPECT_THAT(onnx_refusal(model_of(plain_graph()) + field(8, number(2, 16))),
              HasSubstr("imported as version 17 and as 16"));
  EXPECT_THAT(onnx_refusal(model_of(plain_graph() + std::string("\x0b", 1))), HasSubstr("wire type 3"));
  EXPECT_THAT(onnx_refusal(number(1, 8) + "\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), HasSubstr("bytes"));
}

TEST(OnnxMalformed, NamesAreCheckedAgainstEachOther) {
  EXPECT_THAT(onnx_refusal(model_of(node("Relu", {"z"}, {"y"}) + value(11, "x") + value(12, "y"))),
              HasSubstr("reads \"z\", which nothing before it makes"));
  EXPECT_THAT(onnx_refusal(model_of(node("Relu", {"x"}, {"x"}) + value(11, "x") + value(12, "x"))),
              HasSubstr("\"x\" is made twice"));
  EXPECT_THAT(onnx_refusal(model_of(plain_graph() + value(12, "z"))), HasSubstr("output \"z\" is made by no node"));
  const std::string one(4, '\0');
  EXPECT_THAT(onnx_refusal(model_of(plain_graph() + float_tensor("y", 1, one))), HasSubstr("\"y\" is made twice"));
  EXPECT_THAT(onnx_refusal(model_of(plain_graph() + float_tensor("w", 1, one) + float_tensor("w", 1, one))),
              HasSubstr("\"w\" is made twice"));
}

TEST(OnnxMalformed, TensorsHoldAsManyElementsAsTheySay) {
  EXPECT_THAT(onnx_refusal(model_of(plain_graph() + float_tensor("w", 2, std::string(4, '\0')))),
              HasSubstr("has 4 bytes of elements"));
  EXPECT_THAT(
      onnx_refusal(model_of(plain_graph() + float_tensor("w", 1, std::string(4, '\0'), field(4, std::string(4, '\0'))))),
      HasSubstr("raw and typed"));
  const std::string huge =
      field(5, std::string("\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x08\x7f", 11) + number(2, 1) + field(8, "w"));
  EXPECT_THAT(onnx_refusal(model_of(plain_graph() + huge)), HasSubstr("too many elements"));
  const auto refused_int4 = [](const std::string& elements) {
    return onnx_refusal(model_of(plain_graph() + tensor("w", kInt4, 5, elements)));
  };
  EXPECT_THAT(refused_int4(field(9, "\x11\x22")), HasSubstr("of int4 [5] has 2 bytes of elements"));
  EXPECT_THAT(refused_int4(field(9, "\x11\x22\x33\x44")), HasSubstr("has 4 bytes of elements"));
  EXPECT_THAT(refused_int4(field(5, "\x11\x22")), HasSubstr("has 2 bytes of elements"));
  EXPECT_THAT(refused_int4(field(5, "\x11\x22\x33\x44")), HasSubstr("too many elements"));
  const std::string most = std::string("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x10", 10);  // 2^60 elements
  EXPECT_THAT(
      onnx_refusal(model_of(plain_graph() + field(5, most + number(2, kFloat4) + field(8, "w") + field(9, "\x11")))),
      HasSubstr("has 1 bytes of elements"));
}

TEST(OnnxMalformed, FunctionsThatCallThemselvesEnd) {
  const std::string body = field(1, "F") + field(4, "a") + field(5, "b") +
                           field(7, field(1, "a") + field(2, "b") + field(4, "F") + field(7, "own")) + field(10, "own");
  const std::string graph = node("F", {"x"}, {"y"}, field(7, "own")) + value(11, "x") + value(12, "y");
  const std::string file = model_of(graph) + std::string("\xca\x01", 2) + static_cast<char>(body.size()) + body;
  EXPECT_THAT(onnx_refusal(file), HasSubstr("functions call each other more than 64 deep"));
}

TEST(OnnxMalformed, ExternalDataStayInTheFolder) {
  const TemporaryFolder folder;
  const auto external = [&](const std::string& location, const std::string& key = {}, const std::string& content = {}) {
    std::string entry = field(13, field(1, "location") + field(2, location));
    if (!key.empty()) entry += field(13, field(1, key) + field(2, content));
    const std::string tensor =
        field(5, number(1, 1) + number(2, 1) + field(8, "w") + entry + std::string("\x70\x01", 2));
    const std::string graph = node("Add", {"x", "w"}, {"y"}) + tensor + value(11, "x") + value(12, "y");
    return folder.write("model.onnx", model_of(graph));
  };
  const float two = 2;
  folder.write("data.bin", std::string_view(reinterpret_cast<const char*>(&two), 4));
  EXPECT_BITS_EQ(load_onnx(external("data.bin"))->forward(Tensor::from(std::vector<float>{1}, {1})),
                 Tensor::from(std::vector<float>{3}, {1}));
  for (const std::string name : {"../data.bin", "/etc/passwd", "a/../data.bin", "./data.bin", "a//b", ""}) {
    EXPECT_NE(message_of<Error>([&] { load_onnx(external(name)); }), "no error") << name;
  }
  for (const std::string count : {"-1", "1152921504606846976", "18446744073709551615", "1", "4", "x", ""}) {
    for (const std::string key : {"offset", "length"}) {
      if (key == "length" && count == "4") continue;  // what it has
      EXPECT_NE(message_of<Error>([&] { load_onnx(external("data.bin", key, count)); }), "no error") << key << count;
    }
  }
  std::filesystem::create_directory(folder.path("folder.bin"));
  EXPECT_NE(message_of<Error>([&] { load_onnx(external("folder.bin")); }), "no error");
  ASSERT_EQ(mkfifo(folder.path("pipe.bin").c_str(), 0600), 0);
  EXPECT_NE(message_of<Error>([&] { load_onnx(external("pipe.bin")); }), "no error");  // nor does it wait
  std::filesystem::create_symlink(folder.path("data.bin"), folder.path("link.bin"));
  EXPECT_THAT(message_of<IoError>([&] { load_onnx(external("link.bin")); }), HasSubstr("symbolic link"));
  EXPECT_EQ(onnx_external_files(external("link.bin")), std::vector<std::string>{"link.bin"});
  EXPECT_BITS_EQ(load_onnx(external("link.bin"), {.external_root = folder.path("")})
                     ->forward(Tensor::from(std::vector<float>{1}, {1})),
                 Tensor::from(std::vector<float>{3}, {1}));
  std::filesystem::create_hard_link(folder.path("data.bin"), folder.path("hard.bin"));
  EXPECT_THAT(message_of<IoError>([&] { load_onnx(external("data.bin")); }), HasSubstr("more than one name"));
}

TEST(OnnxMalformed, DictionariesOfNGramsAreChecked) {
  const auto integers = [](const std::string& name, std::initializer_list<std::uint64_t> values) {
    std::string message = field(1, name);
    for (std::uint64_t value : values) {
      message += static_cast<char>(8 << 3);
      for (; value > 127; value >>= 7) message += static_cast<char>(128 + value % 128);
      message += static_cast<char>(value);
    }
    return field(5, message + std::string("\xa0\x01\x07", 3));
  };
  const auto refusal = [&](std::uint64_t start, std::uint64_t column) {
    const TemporaryFolder folder;
    const std::string dictionary =
        integers("pool_int64s", {1, 2}) + integers("ngram_counts", {start}) + integers("ngram_indexes", {0, column});
    const auto model = load_onnx(folder.write(
        "model.onnx", model_of(node("TfIdfVectorizer", {"x"}, {"y"}, dictionary) + value(11, "x") + value(12, "y"))));
    return message_of<Error>([&] { model->forward(zeros({4}, {.dtype = DType::i64})); });
  };
  EXPECT_THAT(refusal(0, ~std::uint64_t{0}), HasSubstr("a column is negative"));
  EXPECT_THAT(refusal(0, ~std::uint64_t{0} / 2), HasSubstr("beyond 2^28"));
  EXPECT_THAT(refusal(~std::uint64_t{0}, 1), HasSubstr("ngram_counts does not fit the pool"));
  EXPECT_THAT(refusal(3, 1), HasSubstr("ngram_counts does not fit the pool"));
}

TEST(OnnxMalformed, EverythingUnsupportedIsInOneError) {
  const std::string graph = node("StringSplit", {"x"}, {"a"}) + node("Wonder", {"a"}, {"b"}) +
                            node("Wonder", {"b"}, {"y"}) + node("Unread", {"x"}, {"nobody"}) + value(11, "x") +
                            value(12, "y");
  const std::string message = onnx_refusal<UnsupportedError>(model_of(graph));
  EXPECT_THAT(message, HasSubstr("cannot run (2 reasons; 3 of 4 nodes)"));
  EXPECT_THAT(message, HasSubstr("Wonder-17 x2   no such operator   first: \"b\""));
  EXPECT_THAT(message, HasSubstr("StringSplit-17 x1"));
  EXPECT_EQ(message.find("Unread"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::io
