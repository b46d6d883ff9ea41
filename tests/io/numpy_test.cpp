#include <lockstep/io/numpy.h>

#include <complex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <lockstep/io/weights.h>
#include <lockstep/ops.h>

#include "io/builders.h"
#include "io/npy.h"
#include "support/failing_calls.h"
#include "support/files.h"
#include "support/peak_memory.h"

namespace lockstep::io {
namespace {

using test::bytes_of;
using test::message_of;
using test::TemporaryFolder;
using test::zip_file;
using testing::HasSubstr;

std::string npy(const std::string& dict, const std::string& data = {}, char version = 1) {
  const std::string length = version == 1 ? bytes_of(static_cast<std::uint16_t>(dict.size()))
                                          : bytes_of(static_cast<std::uint32_t>(dict.size()));
  return "\x93NUMPY" + std::string{version, '\0'} + length + dict + data;
}
std::string array(const std::string& descr, const std::string& shape, const std::string& data, bool fortran = false) {
  return npy(
      "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }\n",
      data);
}

TensorMap every_dtype() {
  TensorMap tensors;
  tensors["bool"] = Tensor::from(std::vector<bool>{true, false, true}, {3});
  tensors["u8"] = Tensor::from(std::vector<std::uint8_t>{1, 2, 255}, {3});
  tensors["i8"] = Tensor::from(std::vector<std::int8_t>{-1, 2, -128}, {3, 1});
  tensors["i16"] = Tensor::from(std::vector<std::int16_t>{-1, 2}, {2});
  tensors["u16"] = Tensor::from(std::vector<std::uint16_t>{1, UINT16_MAX}, {2});
  tensors["i32"] = Tensor::from(std::vector<std::int32_t>{-1, 2}, {2});
  tensors["u32"] = Tensor::from(std::vector<std::uint32_t>{UINT32_MAX}, {});
  tensors["i64"] = Tensor::from(std::vector<std::int64_t>{-1, INT64_MAX}, {1, 2});
  tensors["u64"] = Tensor::from(std::vector<std::uint64_t>{UINT64_MAX}, {1});
  tensors["f16"] = Tensor::from(std::vector<Float16>{{0x3c00}, {0x7c01}}, {2});
  tensors["f32"] = Tensor::from(std::vector<float>{1.5f, -0.0f, NAN, INFINITY}, {2, 2});
  tensors["f64"] = Tensor::from(std::vector<double>{1e300}, {1});
  tensors["complex64"] = Tensor::from(std::vector<std::complex<float>>{{1, -2}}, {1});
  tensors["empty"] = Tensor::from(std::vector<float>{}, {0, 5});
  tensors["\xc3\xa4/x"] = arange(0, 24).reshape({2, 3, 4}).transpose(0, 2);
  return tensors;
}

void expect_equal(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.dtype(), b.dtype());
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_EQ(a.hash(), b.hash());
}
void expect_equal(const TensorMap& a, const TensorMap& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(b.contains(name));
    expect_equal(tensor, b.at(name));
  }
}

TEST(NumPy, RoundTripsEveryDType) {
  const TemporaryFolder folder;
  for (const auto& [name, tensor] : every_dtype()) {
    SCOPED_TRACE(name);
    save_npy(folder.path("a.npy"), tensor);
    for (const bool map : {true, false}) expect_equal(load_npy(folder.path("a.npy"), {.map = map}), tensor);
  }
  save_npz(folder.path("a.npz"), every_dtype());
  for (const bool map : {true, false}) expect_equal(load_npz(folder.path("a.npz"), {.map = map}), every_dtype());
  expect_equal(load_weights(folder.path("a.npz")), every_dtype());
}

TEST(NumPy, WritesTheBytesThatNumPyWrites) {
  const TemporaryFolder folder;
  save_npy(folder.path("a.npy"), Tensor::from(std::vector<std::uint8_t>{7, 8, 9}, {3}));
  const std::string dict = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";
  EXPECT_EQ(test::read_whole_file(folder.path("a.npy")),
            npy(dict + std::string(117 - dict.size(), ' ') + "\n", "\7\10\11"));
}

TEST(NumPy, EqualTensorsGiveEqualFilesThatCanBeMappedAligned) {
  const TemporaryFolder folder;
  save_npz(folder.path("a"), every_dtype());
  save_npz(folder.path("b"), every_dtype());
  EXPECT_EQ(test::read_whole_file(folder.path("a")), test::read_whole_file(folder.path("b")));
  for (const TensorEntry& entry : list_tensors(folder.path("a")).tensors)
    EXPECT_EQ(entry.offset % 64, 0u) << entry.name;
}

TEST(NumPy, FortranOrderIsAPermutedView) {
  const TemporaryFolder folder;
  const std::string data = test::floats({1, 2, 3, 4, 5, 6});
  const Tensor tensor = load_npy(folder.write("a", array("<f4", "(2, 3)", data, true)));
  EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
  EXPECT_EQ(tensor.to_vector<float>(), (std::vector<float>{1, 3, 5, 2, 4, 6}));
}

TEST(NumPy, ReadsWhatOtherVersionsWrite) {
  const TemporaryFolder folder;
  const std::string data = test::floats({1, 2});
  for (const std::string& file :
       {npy("{\"shape\":(2L,),\"descr\":\"<f4\",\"fortran_order\":False}", data),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", data, 2),
        npy("  { 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 2 , ) , } \n", data, 3)}) {
    EXPECT_EQ(load_npy(folder.write("a", file)).to_vector<float>(), (std::vector<float>{1, 2}));
  }
}

TEST(NumPy, RefusesWhatItCannotHoldAndSaysWhatToDo) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& file) {
    return message_of<FormatError>([&] { load_npy(folder.write("a", file)); });
  };
  const std::string data(8, '\0');
  EXPECT_THAT(refusal(array(">f4", "(2,)", data)), HasSubstr("newbyteorder('<')"));
  EXPECT_THAT(refusal(array("|O", "(2,)", data)), HasSubstr("Python objects, which are never loaded"));
  EXPECT_THAT(refusal(array("<V2", "(4,)", data)), HasSubstr("astype(numpy.float32)"));
  EXPECT_THAT(refusal(array("<U1", "(2,)", data)), HasSubstr("none that tensors hold"));
  EXPECT_THAT(refusal(npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,)}", data)),
              HasSubstr("each field"));
  EXPECT_THROW(load_npy(folder.write("a", array("<c16", "(1,)", std::string(16, '\0')))), DTypeError);
  EXPECT_THAT(refusal("text"), HasSubstr("is not an .npy file"));
  const Tensor half = ones({2}, {.dtype = DType::bf16});
  EXPECT_THAT(message_of<FormatError>([&] { save_npy(folder.path("b"), half); }), HasSubstr("tensor.to(DType::f32)"));
  EXPECT_THAT(message_of<FormatError>([&] { save_npz(folder.path("b"), {{"w", half}}); }), HasSubstr("tensor \"w\""));
  EXPECT_THROW(save_npz(folder.path("b"), {{"../w", ones({1})}}), ValueError);
  EXPECT_THROW(save_npz(folder.path("b"), {{"w\xff", ones({1})}}), ValueError);
  EXPECT_THROW(save_npy(folder.path("b"), Tensor()), ValueError);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
}

TEST(NumPy, MalformedHeadersAreFormatErrors) {
  const TemporaryFolder folder;
  const std::string data = test::floats({1, 2});
  for (const std::string& file : {array("<f4", "(3,)", data),
                                  array("<f4", "(1,)", data),
                                  array("<f4", "(2)", data),
                                  array("<f4", "(-2,)", data),
                                  array("<f4", "(4611686018427387904, 4)", ""),
                                  array("<f4", "(0, 4611686018427387904, 4)", ""),
                                  array("<f4", "(99999999999999999999,)", data),
                                  array("<f4", "(2,1,1,1,1,1,1,1,1)", data),
                                  array("<f4", "(2,", data),
                                  array("<f4", "2", data),
                                  array("", "(2,)", data),
                                  array("<", "(2,)", data),
                                  npy("{'descr': '<f4', 'fortran_order': False}", data),
                                  npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", data),
                                  npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", data),
                                  npy("", data),
                                  npy("{", data),
                                  npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} + f()", data),
                                  npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", data),
                                  npy("{'de\\x73cr': '<f4', 'fortran_order': False, 'shape': (2,)}", data),
                                  npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", data, 4),
                                  std::string("\x93NUMPY")}) {
    EXPECT_THROW(load_npy(folder.write("a", file)), FormatError) << file;
  }
  EXPECT_THROW(load_npy(folder.write("a", array("|b1", "(1,)", "\2"))), FormatError);
  // Every truncation of a good file.
  const std::string good = array("<f4", "(2,)", data);
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW(load_npy(folder.write("a", good.substr(0, size))), FormatError) << size;
  }
}

TEST(NumPy, ArchivesMayDifferInCaseAndHoldNothingButArrays) {
  const TemporaryFolder folder;
  const std::string one = array("|u1", "(1,)", "\1");
  const std::string two = array("|u1", "(1,)", "\2");
  const TensorMap tensors = load_npz(folder.write("a", zip_file({{"w.npy", one}, {"W.npy", two}})));
  EXPECT_EQ(tensors.at("W").item<int>(), 2);
  EXPECT_THROW(load_npz(folder.write("a", zip_file({{"w.npy", one}, {"w.npy", two}}))), FormatError);
  EXPECT_THROW(load_npz(folder.write("a", zip_file({{"w.npy", one}, {"note.txt", "x"}}))), FormatError);
  EXPECT_THROW(load_npz(folder.write("a", zip_file({{"w.npy", one.substr(1)}}))), FormatError);
  EXPECT_THROW(load_npz(folder.write("a", zip_file({{"w.npy", one, 0, 0, 1}}))), FormatError);
  EXPECT_NO_THROW(load_npz(folder.path("a"), {.verify_checksums = false}));
  EXPECT_THROW(load_npz(folder.write("a", one)), FormatError);
}

TEST(NumPy, DeflatedArchivesAreUnpackedAndBombsRefused) {
  const auto corpus = [](const char* name) { return std::string(LOCKSTEP_SOURCE_DIR) + "/fuzz/corpus/npz/" + name; };
  const TensorMap tensors = load_npz(corpus("valid-deflated"));
  EXPECT_EQ(tensors.at("a").shape(), (Shape{2, 3}));
  EXPECT_EQ(tensors.at("b").dtype(), DType::i64);
  EXPECT_EQ(load_npz(corpus("bomb")).at("a").numel(), 100000);
  EXPECT_THROW(load_npz(corpus("damaged")), FormatError);
  EXPECT_THROW(load_npz(corpus("size-low"), {.verify_checksums = false}), FormatError);
  const FileListing listing = list_tensors(corpus("valid-deflated"));
  EXPECT_EQ(listing.format, "NumPy npz");
  EXPECT_EQ(listing.tensors.at(0).shape, (Shape{2, 3}));
}

TEST(NumPy, EveryFailingCallLeavesOldOrNewFile) {
  const TensorMap old_tensors = {{"w", ones({2})}};
  for (const int error : {ENOSPC, 0}) {
    for (int k = 0;; ++k) {
      const TemporaryFolder folder;
      const std::string path = folder.path("m.npz");
      save_npz(path, old_tensors);
      test::FailingCalls calls(k, error);
      bool reported = false;
      try {
        write_npz(path, every_dtype(), calls);
      } catch (const IoError&) {
        reported = true;
      }
      const std::size_t found = load_npz(path).size();
      EXPECT_TRUE(found == every_dtype().size() || (reported && found == 1)) << calls.failed_call();
      EXPECT_EQ(folder.names(), std::vector<std::string>{"m.npz"});
      if (!calls.failed()) break;
      ASSERT_LT(k, 500);
    }
  }
}

TEST(NumPy, UnpackingTakesNoMoreThanWhatIsUnpacked) {
  constexpr std::size_t kElements = 20'000'000;  // not a power of two, which a growing block would fit
  const std::string array_bytes = array("<f4", "(" + std::to_string(kElements) + ",)", std::string(4 * kElements, '\0'));
  std::string packed(::compressBound(array_bytes.size()), '\0');
  z_stream stream{};
  ASSERT_EQ(::deflateInit2(&stream, 1, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(array_bytes.data()));
  stream.avail_in = static_cast<uInt>(array_bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ASSERT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  const TemporaryFolder folder;
  const std::string path =
      folder.write("a.npz", zip_file({{.name = "a.npy", .data = packed, .method = 8, .unpacked = array_bytes}}));
  TensorMap loaded;
  const auto growth = test::peak_growth([&] { loaded = load_npz(path); });
  EXPECT_EQ(loaded.at("a").numel(), static_cast<std::int64_t>(kElements));
  if (growth) {
    EXPECT_LT(*growth, array_bytes.size() + (32u << 20));
  }
}

}  // namespace
}  // namespace lockstep::io
