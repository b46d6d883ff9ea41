#include "io/formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>
#include <lockstep/io/numpy.h>
#include <lockstep/io/pytorch.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/io/weights.h>
#include <lockstep/ops.h>

#include "io/builders.h"
#include "io/protobuf.h"
#include "support/data.h"
#include "support/files.h"

namespace lockstep::io {
namespace {

using namespace lockstep::test;  // NOLINT: builders of files
using namespace std::string_view_literals;
using testing::HasSubstr;

std::string name_of_format(const std::string& bytes, const std::string& path = "file") {
  const Format* format = find_format({path, std::as_bytes(std::span(bytes)), nullptr});
  return format == nullptr ? "none" : format->name;
}

// A field of a protocol buffer whose number is below 16.
std::string varint_field(int number, char value) {
  return {static_cast<char>(number << 3), value};
}
std::string bytes_field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string onnx_file() {
  return varint_field(1, 8) + bytes_field(2, "pytorch") + bytes_field(7, "graph") + bytes_field(8, "opset");
}
std::string npy_file() {
  return std::string("\x93NUMPY\x01\0", 8);
}

TEST(Formats, AreRecognisedByTheirContent) {
  const std::string array(npy_file());
  EXPECT_EQ(name_of_format(safetensors_bytes("{}")), "safetensors");
  EXPECT_EQ(name_of_format(zip_file({{"a.npy", array}})), "NumPy npz");
  EXPECT_EQ(name_of_format(zip_file(torch_parts())), "PyTorch zip");
  EXPECT_EQ(name_of_format(zip_file({})), "PyTorch zip");
  EXPECT_EQ(name_of_format("PK\x03\x04 damaged"), "PyTorch zip");
  std::vector<ZipPart> script = torch_parts();
  script.push_back({"m/constants.pkl", pickle("N")});
  EXPECT_EQ(name_of_format(zip_file(script)), "TorchScript");
  EXPECT_EQ(name_of_format(zip_file({{"config.json", "{}"}, {"model.weights.h5", "x"}})), "Keras");
  EXPECT_EQ(name_of_format(legacy_file(pickle(pickle_state()))), "PyTorch legacy");
  EXPECT_EQ(name_of_format(pickle("}")), "pickle");
  EXPECT_EQ(name_of_format(array), "NumPy npy");
  EXPECT_EQ(name_of_format("\x89PNG\r\n\x1a\n"), "PNG");
  EXPECT_EQ(name_of_format("\xff\xd8\xff"), "JPEG");
  EXPECT_EQ(name_of_format("GGUF\3"), "GGUF");
  EXPECT_EQ(name_of_format("\x89HDF\r\n\x1a\n"), "HDF5");
  EXPECT_EQ(name_of_format(std::string("\x1c\0\0\0TFL3....", 12)), "TensorFlow Lite");
  EXPECT_EQ(name_of_format(onnx_file()), "ONNX");
  EXPECT_EQ(name_of_format(varint_field(1, 1) + bytes_field(2, "graph")), "TensorFlow SavedModel");
  EXPECT_EQ(name_of_format(bytes_field(1, "node") + bytes_field(1, "node") + bytes_field(4, "v")), "TensorFlow graph");
  EXPECT_EQ(name_of_format("blocks \x57\xfb\x80\x8b\x24\x75\x47\xdb"), "TensorFlow checkpoint");
  EXPECT_EQ(name_of_format("text"), "none");
  EXPECT_EQ(name_of_format(""), "none");
}

TEST(Formats, ANameDecidesOnlyWhereNothingElseDoes) {
  EXPECT_EQ(name_of_format(std::string(3073, '\3'), "batch.bin"), "CIFAR-10");
  EXPECT_EQ(name_of_format(std::string(3073, '\3'), "batch"), "none");
  EXPECT_EQ(name_of_format(zip_file(torch_parts()), "pytorch_model.bin"), "PyTorch zip");
  EXPECT_EQ(name_of_format(zip_file(torch_parts()), "model.safetensors"), "PyTorch zip");
}

// Every cut of the message, and everything that its outermost level cannot hold, is something else.
TEST(Formats, ProtocolBuffersAreWholeMessages) {
  const std::string onnx = onnx_file();
  for (std::size_t size = 0; size < onnx.size(); ++size) {
    EXPECT_EQ(name_of_format(onnx.substr(0, size)) == "ONNX", size == onnx.size() - 7)
        << size;  // without its last field
  }
  EXPECT_EQ(name_of_format(onnx + bytes_field(9, "unknown")), "none");
  EXPECT_EQ(name_of_format(onnx + varint_field(7, 1)), "none");
  EXPECT_EQ(name_of_format(onnx + "\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "none");      // longer than memory
  EXPECT_EQ(name_of_format(onnx + "\x3a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"), "none");  // no end of a number
  EXPECT_EQ(name_of_format(varint_field(1, 8) + bytes_field(8, "opset")), "none");               // no graph
  std::string many = onnx;
  for (int i = 0; i < 40'000; ++i) many += bytes_field(8, "");
  EXPECT_EQ(name_of_format(many), "ONNX");
  EXPECT_EQ(name_of_format(many + many), "none");  // a file of tiny fields is not walked to its end
}

TEST(Formats, WhatIsNotReadIsNamed) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& bytes) {
    const std::string path = folder.write("x", bytes);
    const std::string listing = message_of<FormatError>([&] { list_tensors(path); });
    EXPECT_EQ(message_of<FormatError>([&] { load_weights(path); }), listing);
    return listing;
  };
  EXPECT_THAT(refusal("\x89HDF\r\n\x1a\n"), HasSubstr("this is an HDF5 file, as Keras writes"));
  EXPECT_THAT(refusal(varint_field(1, 1) + bytes_field(2, "graph")), HasSubstr("this is a TensorFlow SavedModel"));
  std::vector<ZipPart> script = torch_parts();
  script.push_back({"m/constants.pkl", pickle("N")});
  EXPECT_THAT(refusal(zip_file(script)), HasSubstr("this is a TorchScript program: not supported; save the module's"));
  EXPECT_THAT(refusal(pickle("}")), HasSubstr("this is a pickle, but not one of torch.save: not supported"));
  EXPECT_THAT(refusal("\x89PNG\r\n\x1a\n"), HasSubstr("this is a PNG image, no file of tensors"));
  EXPECT_THAT(refusal("\x1f\x8b"), HasSubstr("compressed by gzip: unpack it first"));
  EXPECT_THAT(refusal("some text"), HasSubstr("is of no format that is read (safetensors, NumPy npz, PyTorch zip, "
                                              "PyTorch legacy, NumPy npy, PNG, JPEG, GGUF, ONNX, CIFAR-10): it begins with the "
                                              "bytes 73 6f 6d 65"));
}

TEST(Formats, AnArrayWithoutANameIsListedButHoldsNoWeights) {
  const TemporaryFolder folder;
  save_npy(folder.path("x.npy"), ones({2, 3}));
  const std::string message = message_of<FormatError>([&] { load_weights(folder.path("x.npy")); });
  EXPECT_THAT(message, HasSubstr("is a NumPy .npy file: one array, without the name that weights need; load_npy"));
  const FileListing listing = list_tensors(folder.path("x.npy"));
  EXPECT_EQ(listing.format, "NumPy npy");
  ASSERT_EQ(listing.tensors.size(), 1u);
  EXPECT_EQ(listing.tensors[0].shape, (Shape{2, 3}));
}

// What a listing says of a tensor, and what its elements are, in every format.
TEST(Formats, EverySourceGivesWhatItLists) {
  const TemporaryFolder folder;
  const TensorMap tensors{{"a", arange(0, 6).reshape({2, 3})}, {"b.c", ones({4}, {.dtype = DType::i64})}};
  save_safetensors(folder.path("safetensors"), tensors);
  save_npz(folder.path("npz"), tensors);
  save_pytorch(folder.path("pt"), tensors);
  for (const char* name : {"safetensors", "npz", "pt"}) {
    SCOPED_TRACE(name);
    const os::FileBytes file = os::map_file(folder.path(name));
    const auto source = open_tensors(readable_format(file), file, {});
    ASSERT_EQ(source->entries().size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      const TensorEntry& entry = source->entries()[i];
      const RawTensor elements = source->elements(i);
      EXPECT_EQ(elements.type, entry.type);
      EXPECT_EQ(elements.shape, entry.shape);
      EXPECT_EQ(elements.bytes.size(), entry.bytes);
      EXPECT_EQ(elements.bytes.data(), file.bytes.data() + entry.offset);  // mapped, not copied
      EXPECT_EQ(to_tensor(elements, name, entry.name).hash(), tensors.find(entry.name)->second.hash());
    }
  }
}

TEST(Formats, MetadataHaveTheirTypes) {
  const TemporaryFolder folder;
  save_safetensors(folder.path("a"), {}, {{"epoch", "3"}});
  EXPECT_EQ(list_tensors(folder.path("a")).metadata, (Metadata{{"epoch", "3"}}));
  const std::string object = "}(" + pickle_text("w") + pickle_tensor() + pickle_text("epoch") + "K\x03" +
                             pickle_text("best") + "G" + std::string("\x40\x56\xf0\x00\x00\x00\x00\x00", 8) +
                             pickle_text("amp") + "\x89" + pickle_text("arch") + pickle_text("resnet") +
                             pickle_text("none") + "Nu";
  EXPECT_EQ(
      list_tensors(folder.write("b", legacy_file(pickle(object)))).metadata,
      (Metadata{{"amp", false}, {"arch", "resnet"}, {"best", 91.75}, {"epoch", std::int64_t{3}}, {"none", "None"}}));
}

// One text, shared by many names, is not copied without bound.
TEST(Formats, SharedTextsAreNotABomb) {
  const TemporaryFolder folder;
  std::string object = "](" + pickle_text(std::string(1 << 20, 'x')) + "q\x01";
  for (int i = 0; i < 200; ++i) object += "h\x01";
  const std::string path = folder.write("x", legacy_file(pickle(object + "e"), {}));
  EXPECT_THAT(message_of<FormatError>([&] { list_tensors(path); }), HasSubstr("its texts have more than"));
}

TEST(Formats, RealOnnxModelsAreFilesOfTensors) {
  LOCKSTEP_REQUIRE_DATA(test_data("vision"));
  EXPECT_GT(load_weights(test_data("vision/fastestdet/FastestDet.onnx")).size(), 10U);
}

}  // namespace
}  // namespace lockstep::io
