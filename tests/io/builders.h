// Builds files byte by byte, valid or not, for the tests of the readers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::test {

/// The little-endian bytes of a number.
template <typename T> std::string bytes_of(T value) {
  std::string result(sizeof(T), '\0');
  std::memcpy(result.data(), &value, sizeof(T));
  return result;
}

inline std::string safetensors_bytes(std::string_view header, std::string_view data = {}) {
  return bytes_of<std::uint64_t>(header.size()) + std::string(header) + std::string(data);
}

// --- pickles: pieces of program, to be concatenated and wrapped by pickle() ---

inline std::string pickle(const std::string& body) {
  return "\x80\x02" + body + ".";
}
inline std::string pickle_text(const std::string& text) {
  return "X" + bytes_of(static_cast<std::uint32_t>(text.size())) + text;
}
inline std::string pickle_number(std::int64_t value) {
  return "\x8a\x08" + bytes_of(value);  // LONG1 of eight bytes
}
inline std::string pickle_name(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string pickle_numbers(const std::vector<std::int64_t>& values) {
  std::string result = "(";
  for (const std::int64_t value : values) result += pickle_number(value);
  return result + "t";
}

struct PickledTensor {
  std::vector<std::int64_t> shape = {2, 2};
  std::vector<std::int64_t> stride = {2, 1};
  std::int64_t offset = 0;
  std::string key = "0";
  std::string type = "FloatStorage";
  std::int64_t elements = 4;
};

inline std::string pickle_storage(const PickledTensor& tensor) {
  return "(" + pickle_text("storage") + pickle_name("torch", tensor.type) + pickle_text(tensor.key) +
         pickle_text("cpu") + pickle_number(tensor.elements) + "tQ";
}
inline std::string pickle_tensor(const PickledTensor& tensor = {}) {
  return pickle_name("torch._utils", "_rebuild_tensor_v2") + "(" + pickle_storage(tensor) +
         pickle_number(tensor.offset) + pickle_numbers(tensor.shape) + pickle_numbers(tensor.stride) + "\x89" +
         pickle_name("collections", "OrderedDict") + ")RtR";
}
/// {"w": tensor}
inline std::string pickle_state(const PickledTensor& tensor = {}) {
  return "}" + pickle_text("w") + pickle_tensor(tensor) + "s";
}

/// A legacy file around `object`, a whole pickle, with one storage of `elements` floats under "0".
inline std::string legacy_file(const std::string& object, const std::vector<float>& elements = {1, 2, 3, 4}) {
  std::string result = std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
  result += pickle("M\xe9\x03") + pickle("}" + pickle_text("little_endian") + "\x88s") + object;
  if (elements.empty()) return result + pickle("]");
  result += pickle("]" + pickle_text("0") + "a") + bytes_of<std::int64_t>(static_cast<std::int64_t>(elements.size()));
  for (const float element : elements) result += bytes_of(element);
  return result;
}

// --- zip ---

inline std::uint32_t crc_of(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
  }
  return ~crc;
}

/// One entry, with everything that may be wrong about it.
struct ZipPart {
  std::string name;
  std::string data;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint32_t crc_error = 0;  ///< Added to the checksum in both places.
  std::string local_name = {};  ///< Of the local header, if it differs.
  std::string unpacked = {};    ///< What the data are by method 8.
};

/// A zip file of stored entries, with zip64 end records if asked for.
inline std::string zip_file(const std::vector<ZipPart>& parts, bool end64 = false) {
  std::string file;
  std::string directory;
  for (const ZipPart& part : parts) {
    const auto size = static_cast<std::uint32_t>(part.data.size());
    const std::string& local_name = part.local_name.empty() ? part.name : part.local_name;
    const std::string& content = part.method == 8 ? part.unpacked : part.data;
    const std::uint32_t crc = crc_of(content) + part.crc_error;
    const std::string middle = bytes_of(part.flags) + bytes_of(part.method) + bytes_of<std::uint32_t>(0);
    const std::string sizes = bytes_of(crc) + bytes_of(size) + bytes_of(static_cast<std::uint32_t>(content.size()));
    const auto offset = static_cast<std::uint32_t>(file.size());
    file += "PK\x03\x04" + bytes_of<std::uint16_t>(20) + middle + sizes +
            bytes_of(static_cast<std::uint16_t>(local_name.size())) + bytes_of<std::uint16_t>(0) + local_name +
            part.data;
    directory += "PK\x01\x02" + bytes_of<std::uint16_t>(20) + bytes_of<std::uint16_t>(20) + middle + sizes +
                 bytes_of(static_cast<std::uint16_t>(part.name.size())) + std::string(12, '\0') + bytes_of(offset) +
                 part.name;
  }
  const auto count = static_cast<std::uint16_t>(parts.size());
  const auto offset = static_cast<std::uint32_t>(file.size());
  const auto size = static_cast<std::uint32_t>(directory.size());
  file += directory;
  if (end64) {
    const auto end_offset = static_cast<std::uint64_t>(file.size());
    file += "PK\x06\x06" + bytes_of<std::uint64_t>(44) + bytes_of<std::uint32_t>(0) + bytes_of<std::uint64_t>(0) +
            bytes_of<std::uint64_t>(count) + bytes_of<std::uint64_t>(count) + bytes_of<std::uint64_t>(size) +
            bytes_of<std::uint64_t>(offset);
    file += "PK\x06\x07" + bytes_of<std::uint32_t>(0) + bytes_of(end_offset) + bytes_of<std::uint32_t>(1);
  }
  return file + "PK\x05\x06" + bytes_of<std::uint32_t>(0) + bytes_of(count) + bytes_of(count) + bytes_of(size) +
         bytes_of(offset) + bytes_of<std::uint16_t>(0);
}

inline std::string floats(const std::vector<float>& values) {
  std::string result;
  for (const float value : values) result += bytes_of(value);
  return result;
}

/// What torch.save writes for {"w": a float tensor [2, 2]}.
inline std::vector<ZipPart> torch_parts(const std::string& object = pickle(pickle_state())) {
  return {{"m/data.pkl", object}, {"m/byteorder", "little"}, {"m/data/0", floats({1, 2, 3, 4})}, {"m/version", "3\n"}};
}

// --- JPEG ---

/// A gray square of one brightness: a bit for a block, and for each of the scans behind the first, which add nothing, a
/// few bytes. `side` is a multiple of 8. With frame 0xc9 it says that it is coded arithmetically.
inline std::string flat_jpeg(std::uint16_t side, int scans, unsigned char frame = 0xc2) {
  const auto segment = [](unsigned char marker, const std::string& body) {
    const auto length = static_cast<unsigned>(body.size() + 2);
    return std::string{'\xff', static_cast<char>(marker), static_cast<char>(length >> 8), static_cast<char>(length)} +
           body;
  };
  const auto bytes = [](std::initializer_list<unsigned> values) {
    std::string result;
    for (const unsigned value : values) result += static_cast<char>(value);
    return result;
  };
  const unsigned blocks = unsigned{side} / 8 * (unsigned{side} / 8);
  // Blocks without coefficients: the code "0" and `width` bits are a run of 2^width and so many more, "10" is one.
  unsigned width = 0;
  while (width < 14 && blocks >> (width + 1) != 0) ++width;
  std::vector<bool> bits;
  unsigned left = blocks;
  while (left >> width != 0) {
    const unsigned run = std::min(left, (2u << width) - 1);
    bits.push_back(false);
    for (unsigned bit = width; bit-- > 0;) bits.push_back(((run - (1u << width)) >> bit & 1) != 0);
    left -= run;
  }
  for (; left > 0; --left) bits.insert(bits.end(), {true, false});
  const auto packed = [](std::vector<bool> all) {
    while (all.size() % 8 != 0) all.push_back(true);
    std::string result;
    for (std::size_t i = 0; i < all.size(); i += 8) {
      unsigned byte = 0;
      for (std::size_t k = 0; k < 8; ++k) byte = byte << 1 | unsigned{all[i + k]};
      result += static_cast<char>(byte);
      if (byte == 0xff) result += '\0';
    }
    return result;
  };
  std::string result = "\xff\xd8" + segment(0xdb, std::string(1, '\0') + std::string(64, '\1'));
  result += segment(frame, bytes({8, unsigned{side} >> 8, side & 0xffu, unsigned{side} >> 8, side & 0xffu, 1, 1, 0x11, 0}));
  result += segment(0xc4, bytes({0, 1}) + std::string(15, '\0') + bytes({0}));
  result += segment(0xc4, bytes({0x10, 1, 1}) + std::string(14, '\0') + bytes({width << 4, 0}));
  result += segment(0xda, bytes({1, 1, 0, 0, frame == 0xc2 ? 0u : 0x3fu, 0})) + packed(std::vector<bool>(blocks, false));
  const std::string scan = segment(0xda, bytes({1, 1, 0, 1, 0x3f, 0})) + packed(bits);
  for (int i = 0; i < scans; ++i) result += scan;
  return result + "\xff\xd9";
}

}  // namespace lockstep::test
