// The header of .npy: magic, version, length, and the literal of a Python dict with exactly three keys, e.g.
// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. The literal is read by a grammar of just that.
#include <optional>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "io/npy.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMagic = "\x93NUMPY"sv;
constexpr std::size_t kAlignment = 64;  // of the elements; as NumPy writes

class HeaderParser {
 public:
  HeaderParser(ByteReader& at, std::string_view text) : at_(at), text_(text) {}

  void run(NpyHeader& header) {
    expect('{');
    bool seen[3] = {};
    while (!accept('}')) {
      const std::string_view key = string("a key");
      expect(':');
      const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0) fail(fmt::format("key {} is not known", in_quotes(key)));
      if (seen[which]) fail(fmt::format("key {} appears twice", in_quotes(key)));
      seen[which] = true;
      if (which == 0) header.type = type();
      if (which == 1) header.fortran_order = boolean();
      if (which == 2) header.shape = shape();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!seen[0] || !seen[1] || !seen[2]) fail("descr, fortran_order or shape is missing");
    skip_spaces();
    if (position_ != text_.size()) fail("text follows the dict");
  }

 private:
  [[noreturn]] void fail(std::string_view message) const {
    at_.fail(fmt::format("the array's header is malformed at character {}: {}", position_, message));
  }
  void skip_spaces() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
  }
  bool accept(char c) {
    skip_spaces();
    if (position_ == text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("'{}' is missing", c));
  }
  bool accept_word(std::string_view word) {
    skip_spaces();
    if (!text_.substr(position_).starts_with(word)) return false;
    position_ += word.size();
    return true;
  }

  std::string_view string(std::string_view what) {
    skip_spaces();
    const char quote = position_ < text_.size() ? text_[position_] : '\0';
    if (quote != '\'' && quote != '"') fail(fmt::format("{} must be a string", what));
    const std::size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) fail("a string does not end");
    const std::string_view result = text_.substr(position_ + 1, end - position_ - 1);
    if (result.find('\\') != std::string_view::npos) fail("a string has an escape");
    position_ = end + 1;
    return result;
  }

  bool boolean() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    fail("fortran_order must be True or False");
  }

  StoredType type() {
    skip_spaces();
    if (position_ < text_.size() && text_[position_] == '[') {
      fail("the elements are structures; save each field as an array of its own, e.g. numpy.savez(..., x=a['x'])");
    }
    const std::string_view descr = string("descr");
    const char order = descr.empty() ? '\0' : descr.front();
    const std::string_view code = descr.substr(descr.empty() ? 0 : 1);
    const std::optional<StoredType> found = from_numpy_code(code);
    if (found && (order == '<' || size_of(*found) == 1)) return *found;
    const std::string shown = in_quotes(descr);
    if (found && order == '>') {
      fail(fmt::format("the elements {} are big-endian; save a.astype(a.dtype.newbyteorder('<')) instead", shown));
    }
    if (code.starts_with('O')) fail("the elements are Python objects, which are never loaded; save numbers instead");
    if (code == "V2" || code == "V1") {
      fail(fmt::format(
          "the elements {} have no type in NumPy (bfloat16 or 8-bit floats?); save a.astype(numpy.float32), "
          "or safetensors",
          shown));
    }
    fail(fmt::format("the elements {} are none that tensors hold; save numbers, e.g. a.astype(numpy.float32)", shown));
  }

  std::int64_t number() {
    skip_spaces();
    CheckedSize value = 0;
    const std::size_t start = position_;
    for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9'; ++position_) {
      value = value * 10 + static_cast<std::uint64_t>(text_[position_] - '0');
    }
    if (position_ == start) fail("shape must be a tuple of whole numbers");
    if (!value.at_most(INT64_MAX)) fail("a size exceeds 2^63 - 1");
    if (position_ < text_.size() && text_[position_] == 'L') ++position_;  // Python 2
    return static_cast<std::int64_t>(value.value());
  }

  Shape shape() {
    Shape result;
    expect('(');
    while (!accept(')')) {
      if (result.rank() == kMaxRank) fail(fmt::format("shape has more than {} dimensions", kMaxRank));
      result.push_back(number());
      if (!accept(',')) {
        if (result.rank() == 1) fail("shape is a number in parentheses, no tuple");
        expect(')');
        break;
      }
    }
    return result;
  }

  ByteReader& at_;
  std::string_view text_;
  std::size_t position_ = 0;
};

std::string code_of(std::string_view what, DType dtype) {
  const StoredType type = stored_type(dtype);
  const std::string_view code = numpy_code(type);
  if (code.empty()) {
    const bool computes = !is_storage_only(dtype);
    throw FormatError(
        fmt::format("{}: NumPy has no {}; {}", what, name_of(dtype),
                    computes ? "save tensor.to(DType::f32), or safetensors" : "save safetensors instead"));
  }
  return (size_of(type) == 1 ? "|" : "<") + std::string(code);
}

}  // namespace

bool is_npy(std::span<const std::byte> bytes) {
  return text_of(bytes).starts_with(kMagic);
}

NpyHeader parse_npy_header(std::string_view file, std::span<const std::byte> start, std::uint64_t total) {
  ByteReader reader(file, start);
  const std::span<const std::byte> magic = reader.take(kMagic.size(), "the magic of .npy");
  if (text_of(magic) != kMagic) {
    reader.fail_at(0, "is not a NumPy array");
  }
  const int major = reader.u8("the version");
  const int minor = reader.u8("the version");
  if (major < 1 || major > 3 || minor != 0) {
    reader.fail(fmt::format("version {}.{} of the format is not known; 1.0, 2.0 and 3.0 are", major, minor));
  }
  const std::uint64_t length = major == 1 ? reader.u16("the header's length") : reader.u32("the header's length");
  if (length > kMaxNpyHeaderBytes) {
    reader.fail(fmt::format("a header of {} bytes exceeds the limit of {}", length, kMaxNpyHeaderBytes));
  }
  const std::span<const std::byte> text = reader.take(length, "the header");
  NpyHeader header;
  HeaderParser(reader, {reinterpret_cast<const char*>(text.data()), text.size()}).run(header);
  header.data_offset = reader.position();
  const CheckedSize bytes = element_count(header.shape) * size_of(header.type);
  const std::uint64_t left = total - header.data_offset;
  if (!bytes.equals(left)) {
    reader.fail(fmt::format("{} ({} bytes) does not match the {} bytes behind the header",
                            describe(header.type, header.shape), bytes.to_string(), left));
  }
  header.bytes = left;
  return header;
}

RawTensor npy_elements(const NpyHeader& header, std::span<const std::byte> array, std::shared_ptr<const void> owner) {
  return {header.type, header.shape, array.subspan(header.data_offset, header.bytes), std::move(owner),
          header.fortran_order};
}

std::string npy_header_text(std::string_view what, const Tensor& tensor) {
  std::string shape;
  for (const std::int64_t size : tensor.shape()) shape += fmt::format("{}, ", size);
  if (tensor.rank() > 1) shape.resize(shape.size() - 2);
  if (tensor.rank() == 1) shape.pop_back();
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", code_of(what, tensor.dtype()), shape);
  const std::size_t before = kMagic.size() + 4;
  text.append((kAlignment - (before + text.size() + 1) % kAlignment) % kAlignment, ' ');
  text += '\n';
  const auto length = static_cast<std::uint16_t>(text.size());
  std::string result(kMagic);
  result += {'\x01', '\x00', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return result + text;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
