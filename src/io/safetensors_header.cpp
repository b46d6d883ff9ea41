#include "io/safetensors_header.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>

#include "core/checked.h"
#include "io/raw_tensor.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;

// The header is an object of objects of texts, whole numbers and flat arrays; anything else ends the parse at once,
// so nesting never gets deeper than three however deep the file goes.
class HeaderHandler final : public json::json_sax_t {
 public:
  explicit HeaderHandler(std::string_view file) : file_(file) {}

  std::vector<TensorEntry> entries;
  std::map<std::string, std::string> metadata;

  bool start_object(std::size_t) override {
    if (place_ == Place::start) {
      place_ = Place::top;
    } else if (place_ == Place::top) {
      place_ = in_metadata_ ? Place::metadata : Place::entry;
      seen_ = {};
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::entry) finish_entry();
    place_ = place_ == Place::top ? Place::end : Place::top;
    return true;
  }

  bool key(std::string& text) override {
    if (place_ == Place::top) {
      begin_entry(text);
    } else if (place_ == Place::metadata) {
      if (metadata.size() == kMaxMetadataKeys) fail(fmt::format("__metadata__ has more than {} keys", kMaxMetadataKeys));
      if (metadata.contains(text)) fail(fmt::format("__metadata__: key {} appears twice", in_quotes(text)));
      key_ = std::move(text);
    } else {
      begin_field(text);
    }
    return true;
  }

  bool string(std::string& text) override {
    if (place_ == Place::metadata) {
      metadata.emplace(std::move(key_), std::move(text));
    } else if (place_ == Place::entry && field_ == Field::dtype) {
      const std::optional<StoredType> type = from_safetensors_name(text);
      if (!type) fail_entry(fmt::format("dtype {} is not known", in_quotes(text)));
      entries.back().type = *type;
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::entry || field_ == Field::dtype) unexpected("an array");
    place_ = Place::array;
    return true;
  }

  bool end_array() override {
    if (field_ == Field::data_offsets && offsets_ != 2) {
      fail_entry(fmt::format("data_offsets has {} numbers instead of 2", offsets_));
    }
    place_ = Place::entry;
    return true;
  }

  bool number_unsigned(number_unsigned_t number) override {
    if (place_ != Place::array) unexpected(std::to_string(number));
    TensorEntry& entry = entries.back();
    if (field_ == Field::shape) {
      if (number > static_cast<std::uint64_t>(INT64_MAX)) fail_entry(fmt::format("size {} exceeds 2^63 - 1", number));
      if (entry.shape.rank() == kMaxRank) fail_entry(fmt::format("shape has more than {} dimensions", kMaxRank));
      entry.shape.push_back(static_cast<std::int64_t>(number));
    } else {
      // Relative to the data until check_spans; the second number is the end until then.
      if (offsets_ == 0) entry.offset = number;
      if (offsets_ == 1) entry.bytes = number;
      ++offsets_;
    }
    return true;
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool value) override { return unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t number) override { return unexpected(std::to_string(number) + " with a sign"); }
  bool number_float(number_float_t, const std::string& text) override {
    return unexpected(fmt::format("{}, which is not a 64-bit whole number", in_quotes(text)));
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    // nlohmann's text reads "[json.exception.parse_error.101] parse error at line 1, column 7: syntax error ...".
    std::string_view text = error.what();
    const std::size_t start = text.find(": ");
    if (start != std::string_view::npos) text.remove_prefix(start + 2);
    throw FormatError(fmt::format("{}: the header is not valid JSON: {} (at byte {})", file_, text.substr(0, 300),
                                  kLengthBytes + position));
  }

 private:
  enum class Place { start, top, metadata, entry, array, end };
  enum class Field { dtype, shape, data_offsets };
  struct Seen {
    bool dtype = false;
    bool shape = false;
    bool data_offsets = false;
  };

  [[noreturn]] void fail(std::string_view message) const { throw FormatError(fmt::format("{}: {}", file_, message)); }
  [[noreturn]] void fail_entry(std::string_view message) const {
    fail(fmt::format("tensor {}: {}", in_quotes(entries.back().name), message));
  }
  bool unexpected(std::string_view what) const {
    if (place_ == Place::metadata)
      fail(fmt::format("__metadata__: key {} holds {} instead of a string", in_quotes(key_), what));
    if (place_ == Place::top && in_metadata_) fail(fmt::format("__metadata__ is {} instead of an object", what));
    if (place_ == Place::top) fail_entry(fmt::format("is {} instead of an object", what));
    const char* field = field_ == Field::dtype ? "dtype" : field_ == Field::shape ? "shape" : "data_offsets";
    fail_entry(fmt::format("{} holds {}", field, what));
  }

  void begin_entry(std::string& name) {
    in_metadata_ = name == kMetadataKey;
    if (in_metadata_) {
      if (std::exchange(had_metadata_, true)) fail("__metadata__ appears twice");
      return;
    }
    if (entries.size() == kMaxHeaderTensors)
      fail(fmt::format("the header lists more than {} tensors", kMaxHeaderTensors));
    entries.emplace_back().name = std::move(name);
    offsets_ = 0;
  }

  void begin_field(const std::string& text) {
    bool* seen = nullptr;
    if (text == "dtype") field_ = Field::dtype, seen = &seen_.dtype;
    if (text == "shape") field_ = Field::shape, seen = &seen_.shape;
    if (text == "data_offsets") field_ = Field::data_offsets, seen = &seen_.data_offsets;
    if (seen == nullptr) fail_entry(fmt::format("key {} is not known", in_quotes(text)));
    if (std::exchange(*seen, true)) fail_entry(fmt::format("key {} appears twice", in_quotes(text)));
  }

  void finish_entry() const {
    if (!seen_.dtype) fail_entry("dtype is missing");
    if (!seen_.shape) fail_entry("shape is missing");
    if (!seen_.data_offsets) fail_entry("data_offsets is missing");
  }

  std::string_view file_;
  Place place_ = Place::start;
  Field field_ = Field::dtype;
  Seen seen_;
  std::string key_;
  int offsets_ = 0;
  bool in_metadata_ = false;
  bool had_metadata_ = false;
};

// The JSON parser keeps two copies of the token it is at. Tokens are bounded before it sees them, so that a header
// that is one string of 100 MB costs nothing. And it takes a zero byte for the end of the text, whatever follows.
void check_tokens(std::string_view file, std::string_view header) {
  bool in_string = false;
  std::size_t start = 0;
  for (std::size_t i = 0; i < header.size(); ++i) {
    const char c = header[i];
    if (in_string ? c == '"' : std::string_view("\"{}[]:, ").find(c) != std::string_view::npos) {
      if (c == '"') in_string = !in_string;
      start = i;
    } else if (c == '\0') {
      throw FormatError(
          fmt::format("{}: the header is not valid JSON: it has a zero byte (at byte {})", file, kLengthBytes + i));
    } else if (i - start > kMaxNameBytes) {
      throw FormatError(fmt::format("{}: the header has a name, text or number of more than {} bytes (at byte {})",
                                    file, kMaxNameBytes, kLengthBytes + start));
    } else if (c == '\\' && in_string && i + 1 < header.size() && header[i + 1] != '\0') {
      ++i;
    }
  }
}

// Spans become positions in the file and are proved to be the tensors' sizes, one after the other, to the last byte.
void check_spans(std::string_view file, std::vector<TensorEntry>& entries, std::uint64_t data_start,
                 std::uint64_t data_bytes) {
  for (TensorEntry& entry : entries) {
    const auto fail = [&](std::string_view message) {
      throw FormatError(fmt::format("{}: tensor {}: data span [{}, {}) {}", file, in_quotes(entry.name), entry.offset,
                                    entry.bytes, message));
    };
    const std::uint64_t end = entry.bytes;
    if (end < entry.offset) fail("ends before it begins");
    if (end > data_bytes) fail(fmt::format("ends after the file's {} bytes of data", data_bytes));
    const CheckedSize wanted = element_count(entry.shape) * size_of(entry.type);
    if (!wanted.equals(end - entry.offset)) {
      fail(fmt::format("does not match {} ({} bytes)", describe(entry.type, entry.shape), wanted.to_string()));
    }
  }
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  std::uint64_t covered = 0;
  for (TensorEntry& entry : entries) {
    if (entry.offset != covered) {
      throw FormatError(fmt::format("{}: tensor {}: data span [{}, {}) {} the bytes before it, which end at {}", file,
                                    in_quotes(entry.name), entry.offset, entry.bytes,
                                    entry.offset < covered ? "overlaps" : "leaves a hole after", covered));
    }
    covered = entry.bytes;
    entry.bytes -= entry.offset;
    entry.offset += data_start;
  }
  if (covered != data_bytes) {
    throw FormatError(fmt::format("{}: {} bytes follow the last tensor's data (at byte {})", file, data_bytes - covered,
                                  data_start + covered));
  }
}

std::vector<std::uint32_t> index_names(std::string_view file, const std::vector<TensorEntry>& entries) {
  std::vector<std::uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto name = [&](std::uint32_t i) -> const std::string& { return entries[i].name; };
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return name(a) < name(b); });
  const auto twice = std::adjacent_find(order.begin(), order.end(), [&](auto a, auto b) { return name(a) == name(b); });
  if (twice != order.end()) {
    throw FormatError(fmt::format("{}: tensor {} appears twice", file, in_quotes(name(*twice))));
  }
  return order;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(const os::FileBytes& file) {
  ByteReader reader(file.path, file.bytes);
  const std::uint64_t length = reader.u64("the header's length");
  if (length > kMaxHeaderBytes) {
    reader.fail_at(
        0, fmt::format("the header's length {} exceeds {}; probably not a safetensors file", length, kMaxHeaderBytes));
  }
  const std::span<const std::byte> bytes = reader.take(length, "the header");
  const std::string_view header = text_of(bytes);
  if (header.empty() || header.front() != '{') reader.fail_at(kLengthBytes, "the header does not start with \"{\"");

  check_tokens(file.path, header);
  HeaderHandler handler(file.path);
  json::sax_parse(header.begin(), header.end(), &handler);

  SafetensorsHeader result;
  // Names first: two entries of one name usually share a span too, and the name is what is wrong.
  index_names(file.path, handler.entries);
  check_spans(file.path, handler.entries, reader.offset(), reader.remaining());
  result.entries = std::move(handler.entries);
  result.by_name = index_names(file.path, result.entries);
  result.metadata = std::move(handler.metadata);
  return result;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
