// Numbers from files are untrusted. Two types stand between them and memory: CheckedSize computes with them and
// remembers overflow; ByteReader hands out bytes only after comparing with what is really there.
// Every parser under src/io reads through these, so no parser needs an overflow check of its own.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {
inline namespace v0 {

/// An unsigned size computed from a file's numbers. Overflow sticks: a sum or product of anything with an overflowed
/// size has overflowed too, and no limit admits it.
class CheckedSize {
 public:
  constexpr CheckedSize(std::uint64_t value = 0) : value_(value) {}

  friend constexpr CheckedSize operator+(CheckedSize a, CheckedSize b) {
    CheckedSize result;
    result.overflowed_ = __builtin_add_overflow(a.value_, b.value_, &result.value_) | a.overflowed_ | b.overflowed_;
    return result;
  }
  friend constexpr CheckedSize operator*(CheckedSize a, CheckedSize b) {
    CheckedSize result;
    result.overflowed_ = __builtin_mul_overflow(a.value_, b.value_, &result.value_) | a.overflowed_ | b.overflowed_;
    return result;
  }
  constexpr CheckedSize& operator+=(CheckedSize other) { return *this = *this + other; }
  constexpr CheckedSize& operator*=(CheckedSize other) { return *this = *this * other; }

  constexpr bool overflowed() const { return overflowed_; }
  /// Whether the size is a number, and that number is `limit` or less.
  constexpr bool at_most(std::uint64_t limit) const { return !overflowed_ && value_ <= limit; }
  constexpr bool equals(std::uint64_t other) const { return !overflowed_ && value_ == other; }
  /// The number. Meaningful only after at_most() or equals() returned true; the largest number otherwise.
  constexpr std::uint64_t value() const { return overflowed_ ? ~std::uint64_t{0} : value_; }
  /// The number, or "more than 2^64 - 1", for messages.
  std::string to_string() const;

 private:
  std::uint64_t value_ = 0;
  bool overflowed_ = false;
};

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Reads a file's bytes from front to back. Every read is compared with the bytes that remain before it happens;
/// one that does not fit throws FormatError with the file, the offset, what was wanted and how much is left.
class ByteReader {
 public:
  /// `offset` is where `bytes` start in the file; it only serves messages. `file` must outlive the reader.
  ByteReader(std::string_view file, std::span<const std::byte> bytes, std::uint64_t offset = 0)
      : file_(file), bytes_(bytes), offset_(offset) {}

  std::string_view file() const { return file_; }
  /// Position in the file of the next byte.
  std::uint64_t offset() const { return offset_ + position_; }
  /// Position in `bytes` of the next byte.
  std::size_t position() const { return position_; }
  std::uint64_t remaining() const { return bytes_.size() - position_; }
  bool at_end() const { return position_ == bytes_.size(); }

  /// The next `count` bytes; `what` names them in the error.
  std::span<const std::byte> take(CheckedSize count, std::string_view what) {
    if (!count.at_most(remaining())) fail_short(count, what);
    const std::span<const std::byte> result = bytes_.subspan(position_, static_cast<std::size_t>(count.value()));
    position_ += result.size();
    return result;
  }
  /// Little-endian unsigned integers.
  std::uint8_t u8(std::string_view what) { return read<std::uint8_t>(what); }
  std::uint16_t u16(std::string_view what) { return read<std::uint16_t>(what); }
  std::uint32_t u32(std::string_view what) { return read<std::uint32_t>(what); }
  std::uint64_t u64(std::string_view what) { return read<std::uint64_t>(what); }

  /// Throws FormatError: "<file>: <message> (at byte <offset>)".
  [[noreturn]] void fail(std::string_view message) const { fail_at(offset(), message); }
  [[noreturn]] void fail_at(std::uint64_t offset, std::string_view message) const;

 private:
  template <typename T> T read(std::string_view what) {
    static_assert(std::endian::native == std::endian::little, "files are little-endian, and so must the machine be");
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  [[noreturn]] void fail_short(CheckedSize count, std::string_view what) const;

  std::string_view file_;
  std::span<const std::byte> bytes_;
  std::uint64_t offset_;
  std::size_t position_ = 0;
};

/// `text` in double quotes for a message: control characters and invalid bytes escaped, long texts cut, so that a
/// hostile name cannot forge or flood a terminal.
std::string in_quotes(std::string_view text);

}  // namespace v0
}  // namespace lockstep
