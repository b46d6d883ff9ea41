#include <lockstep/io/wav.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "core/checked.h"
#include "core/os.h"
#include "io/formats.h"
#include "io/reading.h"
#include "io/wav_parser.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr int kMostChannels = 64;
constexpr int kPcm = 1;
constexpr int kFloat = 3;
constexpr int kExtensible = 0xfffe;
constexpr std::uint32_t kUnknownSize = 0xffffffff;  // of samples that a program like ffmpeg has written to a pipe

struct WaveFormat {
  int coding = kPcm;
  int channels = 0;
  int rate = 0;
  std::size_t sample_bytes = 0;
};

WaveFormat parse_format(ByteReader reader) {
  WaveFormat format;
  format.coding = reader.u16("the coding");
  format.channels = reader.u16("the number of channels");
  const std::uint32_t rate = reader.u32("the rate");
  reader.u32("the bytes of a second");
  const int frame_bytes = reader.u16("the bytes of a frame");
  const int bits = reader.u16("the bits of a sample");
  if (format.coding == kExtensible) {
    reader.take(8, "the extension's size, bits and speakers");  // speakers say where a channel sounds, not what it is
    format.coding = reader.u16("the coding");                   // the first two bytes of a GUID
  }
  const bool known = format.coding == kPcm     ? bits == 8 || bits == 16 || bits == 24 || bits == 32
                     : format.coding == kFloat ? bits == 32 || bits == 64
                                               : false;
  if (!known) {
    reader.fail(
        fmt::format("samples of coding {} with {} bits are not read, only PCM (1) of 8, 16, 24 and 32 bits and "
                    "floats (3) of 32 and 64",
                    format.coding, bits));
  }
  if (format.channels < 1 || format.channels > kMostChannels) {
    reader.fail(fmt::format("{} channels are not between 1 and {}", format.channels, kMostChannels));
  }
  if (rate < 1 || rate > 10'000'000) reader.fail(fmt::format("a rate of {} is not between 1 and 10,000,000", rate));
  format.rate = static_cast<int>(rate);
  format.sample_bytes = static_cast<std::size_t>(bits / 8);
  if (static_cast<std::size_t>(frame_bytes) != format.sample_bytes * static_cast<std::size_t>(format.channels)) {
    reader.fail(
        fmt::format("a frame of {} channels with {} bits does not have {} bytes", format.channels, bits, frame_bytes));
  }
  return format;
}

// Little-endian; 8 bits count from 0, the others are signed.
float sample_of(std::span<const std::byte> bytes, int coding) {
  std::uint64_t wide = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) wide = wide << 8 | std::to_integer<std::uint64_t>(bytes[i - 1]);
  const auto bits = static_cast<std::uint32_t>(wide);
  if (coding == kFloat)
    return bytes.size() == 8 ? static_cast<float>(std::bit_cast<double>(wide)) : std::bit_cast<float>(bits);
  if (bytes.size() == 1) return static_cast<float>(static_cast<int>(bits) - 128) / 128.0f;
  const auto value = static_cast<std::int32_t>(bits << (32 - 8 * bytes.size()));
  return static_cast<float>(value) / 2147483648.0f;  // a power of two: only the conversion rounds, and only 32 bits
}

// Channel by channel.
std::vector<float> decode(const WaveFormat& format, std::span<const std::byte> data) {
  const auto channels = static_cast<std::size_t>(format.channels);
  const std::size_t frames = data.size() / (format.sample_bytes * channels);
  std::vector<float> samples(frames * channels);
  for (std::size_t frame = 0; frame < frames; ++frame) {
    for (std::size_t channel = 0; channel < channels; ++channel) {
      const std::size_t at = (frame * channels + channel) * format.sample_bytes;
      samples[channel * frames + frame] = sample_of(data.subspan(at, format.sample_bytes), format.coding);
    }
  }
  return samples;
}

}  // namespace

Sound parse_wav(std::string_view name, std::span<const std::byte> bytes) {
  const std::string_view text = text_of(bytes);
  ByteReader reader(name, bytes);
  if (text.size() < 12 || !text.starts_with("RIFF") || text.substr(8, 4) != "WAVE") {
    reader.fail(fmt::format("is not a WAV file: {}", describe_start(bytes)));
  }
  // The size of all chunks together is not looked at: programs that write to a pipe do not know it.
  reader.take(12, "the start");
  std::optional<WaveFormat> format;
  while (!reader.at_end()) {
    const std::string_view chunk = text_of(reader.take(4, "the name of a chunk"));
    const std::uint32_t size = reader.u32("the size of a chunk");
    const std::uint64_t start = reader.offset();
    const bool to_the_end = chunk == "data" && size == kUnknownSize;
    const std::span<const std::byte> content =
        reader.take(to_the_end ? reader.remaining() : std::uint64_t{size}, in_quotes(chunk));
    if (chunk == "fmt ") {
      if (format) reader.fail_at(start, "there are two formats");
      format = parse_format(ByteReader(name, content, start));
    } else if (chunk == "data") {
      if (!format) reader.fail_at(start, "the samples come before their format");
      const std::size_t frame = format->sample_bytes * static_cast<std::size_t>(format->channels);
      if (content.size() % frame != 0)
        reader.fail_at(start, fmt::format("{} bytes are no whole frames", content.size()));
      const std::vector<float> samples = decode(*format, content);
      if (!std::all_of(samples.begin(), samples.end(), [](float sample) { return std::isfinite(sample); })) {
        reader.fail_at(start, "a sample is an infinity or NaN");
      }
      const Shape shape{format->channels, static_cast<std::int64_t>(content.size() / frame)};
      return {Tensor::from(samples, shape, Device{}), format->rate};
    }
    if (size % 2 == 1 && !reader.at_end()) reader.take(1, "the padding");
  }
  reader.fail("has no samples");
}

Sound load_wav(const std::string& path) {
  return reading(path, [&] { return parse_wav(path, os::read_file(path).bytes); });
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
