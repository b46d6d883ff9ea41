// One test per way to attack a reader of PyTorch files. Nothing is executed, every refusal is a FormatError.
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>

#include "core/os.h"
#include "io/builders.h"
#include "io/pickle_document.h"
#include "support/files.h"

namespace lockstep::io {
namespace {

using testing::HasSubstr;
using namespace lockstep::test;  // NOLINT: builders of files

void parse_pickle(const std::string& bytes) {
  const auto document =
      parse_pytorch({"m.pt", std::as_bytes(std::span(bytes)), std::make_shared<int>(0)}, /*verify_checksums=*/true);
  flatten(PickleDocument::root_value(document), "m.pt");
}

/// What is said about a file whose object is `body`, a program without frame.
std::string pickle_error_of(const std::string& body, const std::vector<float>& elements = {1, 2, 3, 4}) {
  return message_of<FormatError>([&] { parse_pickle(legacy_file(pickle(body), elements)); });
}

std::string error_of_file(const std::string& bytes) {
  return message_of<FormatError>([&] { parse_pickle(bytes); });
}

std::string raw(const char* text, std::size_t size) {
  return {text, size};
}

TEST(MalformedPickle, TheGoodFilesAreGood) {
  EXPECT_EQ(pickle_error_of(pickle_state()), "no error");
  EXPECT_EQ(error_of_file(zip_file(torch_parts())), "no error");
}

TEST(MalformedPickle, EveryTruncationIsRefused) {
  for (const std::string& good :
       {legacy_file(pickle(pickle_state())), zip_file(torch_parts()), zip_file(torch_parts(), true)}) {
    for (std::size_t size = 0; size < good.size(); ++size) {
      EXPECT_NE(error_of_file(good.substr(0, size)), "no error") << size;
    }
  }
}

TEST(MalformedPickle, NothingIsCalled) {
  EXPECT_THAT(pickle_error_of(pickle_name("posix", "system") + pickle_text("touch pwned") + "\x85R"),
              HasSubstr("refuses to load \"posix\".\"system\""));
  EXPECT_THAT(pickle_error_of(pickle_text("posix") + pickle_text("system") + "\x93"), HasSubstr("refuses to load"));
  EXPECT_THAT(pickle_error_of("(" + pickle_text("x") + "iposix\nsystem\n"), HasSubstr("opcode 0x69"));  // INST
  EXPECT_THAT(pickle_error_of("(" + pickle_text("x") + "o"), HasSubstr("opcode 0x6f"));                 // OBJ
  EXPECT_THAT(pickle_error_of("\x82\x01"), HasSubstr("opcode 0x82"));                                   // EXT1
  EXPECT_THAT(pickle_error_of(pickle_name("collections", "OrderedDict") + ")\x81"),
              HasSubstr("opcode 0x81"));  // NEWOBJ
  EXPECT_THAT(pickle_error_of(pickle_tensor() + ")R"), HasSubstr("calls something that is not a name"));
  EXPECT_THAT(pickle_error_of(pickle_name("builtins", "dict") + ")R"), HasSubstr("only ever named"));
  // Names out of the memo, in another order, still pass through the same table.
  EXPECT_THAT(pickle_error_of(pickle_text("system") + "q\x01" + pickle_text("posix") + "q\x02\x86h\x02h\x01\x93"),
              HasSubstr("refuses to load \"posix\".\"system\""));
}

TEST(MalformedPickle, ItemsGoOnlyWhereTheyBelong) {
  EXPECT_THAT(pickle_error_of("]" + pickle_text("a") + "Ns"), HasSubstr("not a dict"));
  EXPECT_THAT(pickle_error_of(")Na"), HasSubstr("not a list"));
  EXPECT_THAT(pickle_error_of("}}b"), HasSubstr("BUILD of something that is not an OrderedDict"));
  EXPECT_THAT(pickle_error_of(pickle_tensor() + "}b"), HasSubstr("BUILD of something"));
  EXPECT_THAT(pickle_error_of("}]Ns"), HasSubstr("key is neither"));
  EXPECT_THAT(pickle_error_of("}(Nu"), HasSubstr("key has no value"));
  EXPECT_THAT(pickle_error_of("}(" + pickle_text("a") + "N" + pickle_text("a") + "Nu", {}),
              HasSubstr("key \"a\" twice"));
}

TEST(MalformedPickle, TensorsStayInsideTheirStorage) {
  const auto error = [](const PickledTensor& tensor) { return pickle_error_of(pickle_tensor(tensor)); };
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_THAT(error({.offset = 1}), HasSubstr("does not fit into storage \"0\" of 4 f32"));
  EXPECT_THAT(error({.stride = {3, 1}}), HasSubstr("does not fit"));
  EXPECT_THAT(error({.stride = {-2, 1}}), HasSubstr("stride is -2, which is negative"));
  EXPECT_THAT(error({.shape = {-1, 2}}), HasSubstr("size is -1, which is negative"));
  EXPECT_THAT(error({.offset = -1}), HasSubstr("storage offset is -1"));
  EXPECT_THAT(error({.shape = {kHuge, 4}, .stride = {0, 0}}), HasSubstr("more than 2^63 - 1 elements"));
  EXPECT_THAT(error({.shape = {2, 2}, .stride = {kHuge, kHuge}}), HasSubstr("does not fit"));
  EXPECT_THAT(error({.shape = {kHuge}, .stride = {0}}), HasSubstr("grow to more than"));
  EXPECT_THAT(error({.shape = {2}, .stride = {2, 1}}), HasSubstr("different ranks"));
  EXPECT_THAT(error({.shape = std::vector<std::int64_t>(9, 1), .stride = std::vector<std::int64_t>(9, 1)}),
              HasSubstr("the limit is 8"));
  EXPECT_THAT(error({.elements = kHuge}), HasSubstr("larger than the file"));
  EXPECT_THAT(error({.elements = 5}), HasSubstr("4 elements instead of 5"));
  EXPECT_THAT(pickle_error_of("(" + pickle_tensor() + pickle_tensor({.type = "IntStorage"}) + "t"),
              HasSubstr("is 4 i32 here and 4 f32 elsewhere"));
}

TEST(MalformedPickle, ExpandedTensorsCannotOutgrowTheFile) {
  std::string many = "(";
  for (int i = 0; i < 100; ++i) many += pickle_tensor({.shape = {1 << 20}, .stride = {0}});
  EXPECT_THAT(pickle_error_of(many + "t"), HasSubstr("grow to more than"));
  // What the result does not contain costs nothing.
  EXPECT_EQ(pickle_error_of("(" + pickle_tensor({.shape = {1 << 20}, .stride = {0}}) + "t"), "no error");
}

TEST(MalformedPickle, SharedValuesAreNotABomb) {
  std::string bomb = raw("]q\0", 3);
  for (char i = 0; i < 40; ++i) bomb += std::string("h") + i + "\x86q" + static_cast<char>(i + 1);
  EXPECT_THAT(pickle_error_of(bomb, {}), HasSubstr("expands to more than 4194304 values"));
}

TEST(MalformedPickle, NestingIsBoundedAndNeverRecursive) {
  EXPECT_THAT(pickle_error_of(")" + std::string(300'000, '\x85'), {}), HasSubstr("nested deeper than 256"));
  EXPECT_THAT(pickle_error_of(")" + std::string(1'000'000, '\x85'), {}), HasSubstr("more than 524288 objects"));
  EXPECT_EQ(pickle_error_of(")" + std::string(255, '\x85'), {}), "no error");
  EXPECT_THAT(pickle_error_of(raw("]q\0h\0a", 6), {}), HasSubstr("a value contains itself"));
  EXPECT_THAT(pickle_error_of(raw("]q\0]h\0aa", 8), {}), HasSubstr("a value contains itself"));
}

TEST(MalformedPickle, Integers) {
  EXPECT_THAT(pickle_error_of("\x8a\xff" + std::string(255, 'x')), HasSubstr("255 bytes; the limit is 16"));
  EXPECT_THAT(pickle_error_of(raw("\x8b\xff\xff\xff\xff", 5)), HasSubstr("opcode 0x8b"));
  EXPECT_THAT(pickle_error_of("I0x10\n"), HasSubstr("opcode 0x49"));
  EXPECT_THAT(pickle_error_of("L" + std::string(1000, '9') + "L\n"), HasSubstr("opcode 0x4c"));
}

TEST(MalformedPickle, LengthsAreComparedWithTheFile) {
  EXPECT_THAT(pickle_error_of(raw("X\xff\xff\xff\xff", 5)), HasSubstr("needs 4294967295 bytes"));
  EXPECT_THAT(pickle_error_of("\x8e" + std::string(8, '\xff')), HasSubstr("needs 18446744073709551615 bytes"));
  EXPECT_THAT(pickle_error_of("\x95" + std::string(8, '\xff') + "N"), HasSubstr("a frame is longer than the pickle"));
  EXPECT_THAT(pickle_error_of("Nr" + std::string(4, '\xff')), HasSubstr("memo index 4294967295 exceeds"));
  EXPECT_THAT(pickle_error_of("h\x07"), HasSubstr("memo index 7 was never written"));
  EXPECT_THAT(pickle_error_of(pickle_text(std::string((1 << 20) + 1, 'x'))), HasSubstr("exceeds the limit of 1048576"));
}

TEST(MalformedPickle, TheStackHoldsOneValueInTheEnd) {
  EXPECT_THAT(pickle_error_of("\x86"), HasSubstr("the stack is empty"));
  EXPECT_THAT(pickle_error_of("N(\x85"), HasSubstr("the stack is empty"));  // nothing above the mark
  EXPECT_THAT(pickle_error_of("t"), HasSubstr("no mark"));
  EXPECT_THAT(pickle_error_of("NN"), HasSubstr("exactly one value"));
  EXPECT_THAT(pickle_error_of(""), HasSubstr("exactly one value"));
  EXPECT_THAT(pickle_error_of(std::string(10'000'000, '('), {}), HasSubstr("more than 1024 marks"));
  EXPECT_THAT(pickle_error_of(std::string(10'000'000, 'N'), {}), HasSubstr("more than 1048576 values on its stack"));
}

TEST(MalformedPickle, OnlyValuesAreValues) {
  EXPECT_THAT(pickle_error_of(pickle_storage({})), HasSubstr("bare storage"));
  EXPECT_THAT(pickle_error_of(pickle_name("torch", "FloatStorage"), {}),
              HasSubstr("a type stands where a value should"));
  EXPECT_THAT(pickle_error_of("(" + pickle_text("module") + "NNNNtQ"), HasSubstr("not one of a storage"));
}

TEST(MalformedPickle, NamesMustDiffer) {
  EXPECT_THAT(pickle_error_of("}(" + pickle_text("a.b") + pickle_tensor() + pickle_text("a") + "}" + pickle_text("b") +
                              pickle_tensor() + "su"),
              HasSubstr("two values have the name \"a.b\""));
}

TEST(MalformedLegacy, EveryPartIsChecked) {
  const std::string good = legacy_file(pickle(pickle_state()));
  EXPECT_THAT(error_of_file(good + "x"), HasSubstr("1 bytes follow the last storage"));
  EXPECT_THAT(error_of_file(pickle("N")), HasSubstr("not one of torch.save"));
  EXPECT_THAT(error_of_file(pickle(raw("\x8a\x0a", 2) + std::string(10, 'x'))), HasSubstr("magic number is missing"));
  EXPECT_THAT(pickle_error_of(pickle_state(), {}), HasSubstr("storage \"0\" are missing"));
  EXPECT_THAT(pickle_error_of("N"), HasSubstr("listed but not used"));
  std::string big = good;
  big.replace(big.find('\x88'), 1, "\x89");
  EXPECT_THAT(error_of_file(big), HasSubstr("byte order is big"));
}

TEST(MalformedZip, OneMeaningOnly) {
  const auto error = [](std::vector<ZipPart> extra) {
    std::vector<ZipPart> parts = torch_parts();
    parts.insert(parts.end(), extra.begin(), extra.end());
    return error_of_file(zip_file(parts));
  };
  EXPECT_EQ(error({{"m/x", "y"}}), "no error");
  EXPECT_THAT(error({{"m/data.pkl", pickle("N")}}), HasSubstr("\"m/data.pkl\" appears twice"));
  EXPECT_THAT(error({{"m/DATA.PKL", pickle("N")}}), HasSubstr("appears twice (case ignored)"));
  EXPECT_THAT(error({{"n/data.pkl", pickle("N")}}), HasSubstr("holds two data.pkl"));
  EXPECT_THAT(error({{"m/../../x", ""}}), HasSubstr("leaves the archive"));
  EXPECT_THAT(error({{"/etc/passwd", ""}}), HasSubstr("is an absolute path"));
  EXPECT_THAT(error({{"C:\\x", ""}}), HasSubstr("contains a backslash or colon"));
  EXPECT_THAT(error({{std::string("a\0b", 3), ""}}), HasSubstr("contains a zero byte"));
  EXPECT_THAT(error({{"m/x", "y", 0, 8}}), HasSubstr("is compressed (method 8)"));
  EXPECT_THAT(error({{"m/x", "y", 1}}), HasSubstr("is encrypted"));
  EXPECT_THAT(error({{.name = "m/x", .data = "y", .local_name = "m/y"}}),
              HasSubstr("the local header names it \"m/y\""));
  EXPECT_THAT(error({{"m/constants.pkl", pickle("N")}}), HasSubstr("TorchScript"));
}

TEST(MalformedZip, ChecksumsOfWhatIsReadAreVerified) {
  for (const std::size_t part : {std::size_t{0}, std::size_t{2}}) {
    std::vector<ZipPart> parts = torch_parts();
    parts[part].crc_error = 1;
    EXPECT_THAT(error_of_file(zip_file(parts)), HasSubstr("checksum is")) << part;
  }
}

TEST(MalformedZip, SizesAndStoragesAgree) {
  std::vector<ZipPart> parts = torch_parts();
  parts[2].data.pop_back();
  EXPECT_THAT(error_of_file(zip_file(parts)), HasSubstr("has 15 bytes instead of the 16 of 4 f32"));
  parts.erase(parts.begin() + 2);
  EXPECT_THAT(error_of_file(zip_file(parts)), HasSubstr("storage \"0\" are missing"));
  parts = torch_parts(pickle(pickle_state()) + "N.");
  EXPECT_THAT(error_of_file(zip_file(parts)), HasSubstr("bytes follow the end of data.pkl"));
  parts = torch_parts();
  parts[1].data = "big";
  EXPECT_THAT(error_of_file(zip_file(parts)), HasSubstr("byte order is \"big\""));
  EXPECT_THAT(error_of_file(zip_file({{"readme.txt", "hello"}})), HasSubstr("holds no NAME/data.pkl"));
}

TEST(MalformedZip, NothingBeforeBetweenOrBehind) {
  const std::string good = zip_file(torch_parts());
  EXPECT_THAT(error_of_file(good + "x"), HasSubstr("does not end with an end record"));
  EXPECT_NE(error_of_file("PK\x03\x04junk" + good), "no error");
  // A hole: the directory moves by one byte, and says so.
  std::string hole = good;
  const std::uint32_t directory = static_cast<std::uint32_t>(good.find("PK\x01\x02"));
  hole.insert(directory, 1, 'x');
  hole.replace(hole.size() - 6, 4, test::bytes_of(directory + 1));
  EXPECT_THAT(error_of_file(hole), HasSubstr("bytes after it belong to no entry"));
  // The second entry's header becomes the first's: 42 kB bombs are built of such overlaps.
  std::string overlap = good;
  overlap.replace(directory + 46 + 10 + 42, 4, test::bytes_of<std::uint32_t>(0));
  EXPECT_NE(error_of_file(overlap), "no error");
}

TEST(MalformedZip, Zip64RecordsMustBeTrue) {
  const std::string good = zip_file(torch_parts(), true);
  const std::size_t end64 = good.find("PK\x06\x06");
  const auto patched = [&](std::size_t offset, std::uint64_t value) {
    std::string bad = good;
    bad.replace(offset, 8, test::bytes_of(value));
    return error_of_file(bad);
  };
  EXPECT_EQ(error_of_file(good), "no error");
  EXPECT_THAT(patched(end64 + 56 + 8, end64 + 56), HasSubstr("zip64 locator points to byte"));  // at itself
  EXPECT_THAT(patched(end64 + 24, std::uint64_t{1} << 63), HasSubstr("disagree"));
  EXPECT_THAT(patched(end64 + 40, std::uint64_t{1} << 63), HasSubstr("disagree"));
  EXPECT_THAT(patched(end64 + 48, ~std::uint64_t{0}), HasSubstr("disagree"));
  EXPECT_THAT(patched(end64 + 4, std::uint64_t{1} << 63), HasSubstr("malformed"));
  // A size that is said to stand in a field that is not there.
  std::string missing = zip_file(torch_parts());
  missing.replace(missing.find("PK\x01\x02") + 20, 8, std::string(8, '\xff'));
  EXPECT_THAT(error_of_file(missing), HasSubstr("marked 64-bit, but there is no such field"));
}

TEST(MalformedPickle, HostileFilesCostBoundedTimeAndMemory) {
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t before = os::resident_bytes();
  std::string lists(3'000'000, ']');
  EXPECT_THAT(pickle_error_of(lists, {}), HasSubstr("more than 524288 objects"));
  std::string appended = "]";
  for (int i = 0; i < 50; ++i) appended += "(" + std::string(100'000, 'N') + "e";
  EXPECT_THAT(pickle_error_of(appended, {}), HasSubstr("hold more than 4194304 values"));
  std::string tensors = pickle_tensor() + "0";  // POP is refused
  EXPECT_THAT(pickle_error_of(tensors), HasSubstr("opcode 0x30"));
  std::string many = raw("](", 2) + pickle_name("torch._utils", "_rebuild_tensor") + raw("q\0(", 3) +
                     pickle_storage({}) + "K\x01" + pickle_numbers({2}) + pickle_numbers({1}) + "tq\x01R";
  for (int i = 0; i < 200'000; ++i) many += raw("h\0h\1R", 5);
  EXPECT_THAT(pickle_error_of(many + "e"), HasSubstr("more than 131072 tensors"));
  EXPECT_LT(os::resident_bytes(), before + (300u << 20));  // sanitizers keep freed memory for a while
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace lockstep::io
