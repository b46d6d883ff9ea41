#include <lockstep/io/pytorch.h>

#include <cstring>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/io/weights.h>

#include "io/builders.h"
#include "io/pickle_expectations.h"
#include "support/data.h"
#include "support/files.h"

namespace lockstep::io {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using namespace lockstep::test;  // NOLINT: builders of files

// Python's json module writes NaN and Infinity, which JSON lacks; they become null.
json read_json(const std::filesystem::path& path) {
  std::string text = read_whole_file(path);
  for (const std::string name : {"-Infinity", "Infinity", "NaN"}) {
    for (std::size_t at; (at = text.find(name)) != std::string::npos;) text.replace(at, name.size(), "null");
  }
  return json::parse(text);
}

// --- synthetic files ---

TEST(Pytorch, ReadsBothContainers) {
  const TemporaryFolder folder;
  const std::string zip = folder.write("zip", zip_file(torch_parts()));
  const std::string zip64 = folder.write("zip64", zip_file(torch_parts(), true));
  const std::string legacy = folder.write("legacy", legacy_file(pickle(pickle_state())));
  for (const std::string& path : {zip, zip64, legacy}) {
    for (const bool map : {true, false}) {
      const TensorFile file = load_pytorch(path, {.map = map});
      EXPECT_EQ(file.tensors.at("w").shape(), (Shape{2, 2}));
      EXPECT_EQ(file.tensors.at("w").to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
    }
  }
}

TEST(Pytorch, FlattensNestedValuesAndKeepsTheOthersAsText) {
  const TemporaryFolder folder;
  const std::string object = "}(" + pickle_text("state_dict") + "}" + pickle_text("module.fc.bias") + pickle_tensor() +
                             "s" + pickle_text("best_prec1") + "G" +
                             std::string("\x40\x56\xf0\x00\x00\x00\x00\x00", 8) + pickle_text("epoch") + "K\x03" +
                             pickle_text("amp") + "\x89" + pickle_text("arch") + pickle_text("resnet") +
                             pickle_text("history") + "](K\x01Neu";
  const TensorFile file = load_pytorch(folder.write("m", legacy_file(pickle(object))));
  ASSERT_EQ(file.tensors.size(), 1u);
  EXPECT_TRUE(file.tensors.contains("state_dict.module.fc.bias"));
  const std::map<std::string, std::string> expected = {{"amp", "False"}, {"arch", "resnet"}, {"best_prec1", "91.75"},
                                                       {"epoch", "3"},   {"history.0", "1"}, {"history.1", "None"}};
  EXPECT_EQ(file.metadata, expected);
}

TEST(Pytorch, ValuesCanBeWalked) {
  const TemporaryFolder folder;
  const std::string object = "}(" + pickle_text("a") + "(K\x01K\xfft" + pickle_text("w") + pickle_tensor() + "u";
  const PickleValue root = load_pickle(folder.write("m", legacy_file(pickle(object))));
  EXPECT_EQ(root.kind(), PickleValue::Kind::dict);
  EXPECT_EQ(root.size(), 2u);
  EXPECT_EQ(root.key(0).as_string(), "a");
  EXPECT_EQ(root.get("a").at(1).as_integer(), 255);
  EXPECT_EQ(root.get("a").at(1).as_real(), 255.0);
  EXPECT_EQ(root.get("w").to_string(), "tensor f32 [2, 2]");
  EXPECT_EQ(root.get("w").as_tensor().numel(), 4);
  EXPECT_FALSE(root.has("b"));
  EXPECT_THROW(root.get("b"), ValueError);
  EXPECT_THROW(root.at(0), ValueError);
  EXPECT_THROW(root.key(2), IndexError);
  EXPECT_THROW(root.get("a").as_string(), ValueError);
}

TEST(Pytorch, StridesAndSharedStorages) {
  const TemporaryFolder folder;
  const std::string object = "}(" + pickle_text("t") + pickle_tensor({.shape = {2, 2}, .stride = {1, 2}}) +
                             pickle_text("column") + pickle_tensor({.shape = {2}, .stride = {2}, .offset = 1}) +
                             pickle_text("expanded") + pickle_tensor({.shape = {3, 2}, .stride = {0, 1}, .offset = 2}) +
                             pickle_text("scalar") + pickle_tensor({.shape = {}, .stride = {}, .offset = 3}) +
                             pickle_text("one") + pickle_tensor({.shape = {1, 2}, .stride = {1 << 30, 1}}) + "u";
  const TensorMap tensors = load_pytorch(folder.write("m", legacy_file(pickle(object)))).tensors;
  EXPECT_EQ(tensors.at("t").to_vector<float>(), (std::vector<float>{1, 3, 2, 4}));
  EXPECT_EQ(tensors.at("column").to_vector<float>(), (std::vector<float>{2, 4}));
  EXPECT_EQ(tensors.at("expanded").to_vector<float>(), (std::vector<float>{3, 4, 3, 4, 3, 4}));
  EXPECT_EQ(tensors.at("scalar").to_vector<float>(), std::vector<float>{4});
  EXPECT_EQ(tensors.at("one").to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST(Pytorch, TypesWithoutATensorAreListedButNotLoaded) {
  const TemporaryFolder folder;
  const std::string object =
      pickle(pickle_state({.shape = {1}, .stride = {1}, .type = "ComplexDoubleStorage", .elements = 1}));
  const std::string path = folder.write("m", zip_file(torch_parts(object)));
  EXPECT_EQ(list_tensors(path).tensors.at(0).type, StoredType::c128);
  EXPECT_THAT(message_of<DTypeError>([&] { load_weights(path); }), HasSubstr("tensor \"w\" is stored as complex128"));
}

// PyTorch has no class of storages for complex32: the tensor names its type.
TEST(Pytorch, HalfComplexNumbersAreListedButNotLoaded) {
  const TemporaryFolder folder;
  const std::string storage = "(" + pickle_text("storage") + pickle_name("torch.storage", "UntypedStorage") +
                              pickle_text("0") + pickle_text("cpu") + pickle_number(16) + "tQ";
  const std::string tensor = pickle_name("torch._utils", "_rebuild_tensor_v3") + "(" + storage + pickle_number(0) +
                             pickle_numbers({2, 2}) + pickle_numbers({2, 1}) + "\x89" +
                             pickle_name("collections", "OrderedDict") + ")R" + pickle_name("torch", "complex32") + "tR";
  const std::string path = folder.write("m", zip_file(torch_parts(pickle("}" + pickle_text("w") + tensor + "s"))));
  EXPECT_EQ(list_tensors(path).tensors.at(0).type, StoredType::c32);
  EXPECT_EQ(list_tensors(path).tensors.at(0).bytes, 16u);
  EXPECT_THAT(message_of<DTypeError>([&] { load_weights(path); }),
              HasSubstr("tensor \"w\" is stored as complex32, which tensors cannot hold; convert the file, e.g. to "
                        "complex64"));
}

TEST(Pytorch, ComplexNumbersAreReadBitForBit) {
  const TemporaryFolder folder;
  const std::string object =
      pickle(pickle_state({.shape = {2}, .stride = {1}, .type = "ComplexFloatStorage", .elements = 2}));
  const std::string path = folder.write("m", zip_file(torch_parts(object)));
  EXPECT_EQ(load_weights(path).at("w").to_vector<std::complex<float>>(), (std::vector<std::complex<float>>{{1, 2}, {3, 4}}));
}

TEST(Weights, FindTheStateDict) {
  const TemporaryFolder folder;
  const auto names = [&](const std::string& object) {
    std::vector<std::string> result;
    for (const auto& item : load_weights(folder.write("m", legacy_file(pickle(object))))) result.push_back(item.first);
    return result;
  };
  const auto dict = [](const std::string& key, const std::string& value) {
    return "}" + pickle_text(key) + value + "s";
  };
  const std::vector<std::string> w = {"fc.w"};
  EXPECT_EQ(names(dict("fc.w", pickle_tensor())), w);
  EXPECT_EQ(names(dict("module.fc.w", pickle_tensor())), w);
  EXPECT_EQ(names(dict("state_dict", dict("module.fc.w", pickle_tensor()))), w);
  EXPECT_EQ(names(dict("model", dict("state_dict", dict("fc.w", pickle_tensor())))), w);
  EXPECT_EQ(names(dict("model_state_dict", dict("fc.w", pickle_tensor()))), w);
  EXPECT_EQ(names(dict("other", dict("fc.w", pickle_tensor()))), std::vector<std::string>{"other.fc.w"});
  // One name without the prefix: it belongs to the names.
  EXPECT_EQ(names("}(" + pickle_text("module.a") + pickle_tensor() + pickle_text("b") + pickle_tensor() + "u"),
            (std::vector<std::string>{"b", "module.a"}));
}

TEST(Weights, RecogniseFilesByContent) {
  const TemporaryFolder folder;
  save_safetensors(folder.path("weights.pt"), {{"module.w", Tensor::from(std::vector<float>{1}, {1})}});
  EXPECT_TRUE(load_weights(folder.path("weights.pt")).contains("w"));
  EXPECT_EQ(list_tensors(folder.path("weights.pt")).format, "safetensors");
  EXPECT_EQ(list_tensors(folder.write("a.safetensors", zip_file(torch_parts()))).format, "PyTorch zip");
  EXPECT_EQ(list_tensors(folder.write("b", legacy_file(pickle(pickle_state())))).format, "PyTorch legacy");

  const auto refusal = [&](const std::string& bytes) {
    return message_of<FormatError>([&] { load_weights(folder.write("x", bytes)); });
  };
  EXPECT_THAT(refusal(""), HasSubstr("it is empty"));
  EXPECT_THAT(refusal("abc"), HasSubstr("it begins with the bytes 61 62 63"));
  EXPECT_THAT(refusal("GGUF...."), HasSubstr("GGUF"));
  EXPECT_THAT(refusal("\x93NUMPY\x01"), HasSubstr("NumPy"));
  EXPECT_THAT(refusal("version https://git-lfs.github.com/spec/v1"), HasSubstr("git lfs pull"));
  EXPECT_THAT(refusal("<html>"), HasSubstr("web page"));
}

TEST(Weights, ListingKnowsWhereElementsStand) {
  const TemporaryFolder folder;
  const std::string bytes = zip_file(torch_parts());
  const FileListing listing = list_tensors(folder.write("m", bytes));
  ASSERT_EQ(listing.tensors.size(), 1u);
  EXPECT_EQ(bytes.substr(listing.tensors[0].offset, listing.tensors[0].bytes), test::floats({1, 2, 3, 4}));
}

// --- files that PyTorch wrote ---

TEST(PytorchFiles, HoldWhatTorchReadsInThem) {
  const json contents = read_json(repository_data("pickles/contents.json"));
  for (const json& group : contents["read"]) {
    for (const std::string file : group["files"]) {
      SCOPED_TRACE(file);
      const TensorFile read = load_pytorch(repository_data("pickles/" + file));
      EXPECT_EQ(read.tensors.size(), group["tensors"].size());
      for (const auto& [path, expected] : group["tensors"].items()) {
        SCOPED_TRACE(path);
        const auto found = read.tensors.find(path.empty() ? "tensor" : path);
        ASSERT_NE(found, read.tensors.end());
        EXPECT_EQ(torch_name(found->second.dtype()), expected["dtype"]);
        EXPECT_EQ(sizes_of(found->second), expected["shape"].get<std::vector<std::int64_t>>());
        const std::vector<double> values = values_of(found->second);
        ASSERT_EQ(values.size(), expected["values"].size());
        for (std::size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(same_number(values[i], expected["values"][i])) << i;
      }
      for (const auto& [path, expected] : group["others"].items()) {
        EXPECT_TRUE(read.metadata.contains(path)) << path;
        if (expected.is_string()) {
          EXPECT_EQ(read.metadata.at(path), expected.get<std::string>());
        }
        if (expected.is_number_integer()) {
          EXPECT_EQ(read.metadata.at(path), std::to_string(expected.get<std::int64_t>()));
        }
      }
    }
  }
}

TEST(PytorchFiles, RefusesWhatItMust) {
  const json contents = read_json(repository_data("pickles/contents.json"));
  for (const auto& [file, reason] : contents["refuse"].items()) {
    const std::string path = repository_data("pickles/" + file);
    EXPECT_THROW(load_pytorch(path), Error) << file << ": " << reason;
  }
  EXPECT_THAT(message_of<FormatError>([] { load_pytorch(repository_data("pickles/calls_print.pt")); }),
              HasSubstr("refuses to load \"__builtin__\".\"print\""));
}

// contents.json of the collected files: nested dicts whose leaves are tensors (with dtype, shape, sum, first values) or
// the repr of a Python value.
void expect_contents(const json& expected, const std::string& path, const TensorFile& file) {
  if (expected.is_object() && expected.contains("dtype") && expected.contains("sum_f64")) {
    SCOPED_TRACE(path);
    ASSERT_TRUE(file.tensors.contains(path));
    const Tensor& tensor = file.tensors.find(path)->second;
    EXPECT_EQ("torch." + torch_name(tensor.dtype()), expected["dtype"]);
    EXPECT_EQ(sizes_of(tensor), expected["shape"].get<std::vector<std::int64_t>>());
    const std::vector<double> values = values_of(tensor);
    double sum = 0;
    for (const double value : values) sum += value;
    if (expected["sum_f64"].is_number()) {
      EXPECT_NEAR(sum, expected["sum_f64"], 1e-9 * (1 + std::fabs(sum)));
    }
    for (std::size_t i = 0; i < expected["first"].size(); ++i) {
      EXPECT_TRUE(same_number(values.at(i), expected["first"][i])) << i;
    }
  } else if (expected.is_object()) {
    for (const auto& [key, value] : expected.items())
      expect_contents(value, path.empty() ? key : path + "." + key, file);
  } else if (expected.is_array()) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      expect_contents(expected[i], path + "." + std::to_string(i), file);
  } else {
    std::string text = expected.get<std::string>();
    if (text.front() == '\'') text = text.substr(1, text.size() - 2);
    ASSERT_TRUE(file.metadata.contains(path)) << path;
    EXPECT_EQ(file.metadata.find(path)->second, text) << path;
  }
}

TEST(PytorchFiles, CollectedFilesHoldWhatTorchReadsInThem) {
  LOCKSTEP_REQUIRE_DATA(test_data("vision/pytorch_pickles/contents.json"));
  const json contents = read_json(test_data("vision/pytorch_pickles/contents.json"));
  int read = 0;
  for (const auto& [name, expected] : contents.items()) {
    SCOPED_TRACE(name);
    const std::string path = test_data("vision/pytorch_pickles/" + name);
    if (expected.is_string()) {
      EXPECT_THROW(load_pytorch(path), FormatError);
      continue;
    }
    expect_contents(expected, "", load_pytorch(path));
    EXPECT_NO_THROW(load_weights(path));
    ++read;
  }
  EXPECT_GT(read, 30);
  EXPECT_THAT(message_of<FormatError>([] { load_weights(test_data("vision/pytorch_pickles/test.npy")); }),
              HasSubstr("NumPy"));
  EXPECT_FALSE(load_weights(test_data("vision/pytorch_pickles/test.npz")).empty());
}

TEST(PytorchFiles, ResNetsEqualTheirSafetensors) {
  LOCKSTEP_REQUIRE_DATA(test_data("resnet_cifar"));
  const struct {
    const char* pickled;
    const char* converted;
  } pairs[] = {{"resnet20-12fca82f.th", "resnet20.safetensors"}, {"resnet56-4bfd9763.th", "resnet56.safetensors"}};
  for (const auto& pair : pairs) {
    const TensorMap a = load_weights(test_data("resnet_cifar") / pair.pickled);
    const TensorMap b = load_weights(test_data("resnet_cifar") / pair.converted);
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, tensor] : a) {
      ASSERT_TRUE(b.contains(name)) << name;
      EXPECT_EQ(tensor.shape(), b.find(name)->second.shape()) << name;
      EXPECT_EQ(values_of(tensor), values_of(b.find(name)->second)) << name;
    }
  }
  const TensorFile file = load_pytorch(test_data("resnet_cifar/resnet32-d509ac18.th"));
  EXPECT_EQ(file.tensors.at("state_dict.module.linear.weight").shape(), (Shape{10, 64}));
  EXPECT_TRUE(file.metadata.contains("best_prec1"));
}

TEST(PytorchFiles, RealModels) {
  LOCKSTEP_REQUIRE_DATA(test_data("vision/fastestdet/FastestDet.pth"));
  EXPECT_EQ(load_weights(test_data("vision/fastestdet/FastestDet.pth")).size(), 420u);
  const TensorMap mnist = load_weights(test_data("mnist/trained_cnn/mnist_cnn.pt"));
  EXPECT_EQ(mnist.at("conv1.weight").shape(), (Shape{8, 1, 3, 3}));
  EXPECT_EQ(mnist.at("fc1.weight").shape(), (Shape{32, 11616}));
  EXPECT_EQ(mnist.at("norm1.num_batches_tracked").rank(), 0);
}

}  // namespace
}  // namespace lockstep::io
