#include <lockstep/io/wav.h>

#include <gtest/gtest.h>

#include <bit>

#include <lockstep/error.h>

#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::io {
namespace {

using namespace std::string_literals;
using test::TemporaryFolder;

std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}
std::string chunk(const std::string& name, const std::string& content) {
  return name + little(content.size(), 4) + content + (content.size() % 2 == 1 ? "\0"s : "");
}
std::string format(int coding, int channels, int bits, int rate = 16000) {
  const int frame = channels * bits / 8;
  return chunk("fmt ", little(coding, 2) + little(channels, 2) + little(rate, 4) + little(rate * frame, 4) +
                           little(frame, 2) + little(bits, 2));
}
std::string wav(const std::string& chunks) {
  return "RIFF" + little(4 + chunks.size(), 4) + "WAVE" + chunks;
}
Sound load(const std::string& content) {
  const TemporaryFolder folder;
  return load_wav(folder.write("sound.wav", content));
}

TEST(Wav, ReadsEveryCoding) {
  const auto samples = [](int coding, int bits, const std::string& data) {
    return load(wav(format(coding, 1, bits) + chunk("data", data))).samples.to_vector<float>();
  };
  EXPECT_EQ(samples(1, 8, "\x00\x80\xff"s), (std::vector<float>{-1, 0, 127.0f / 128}));
  EXPECT_EQ(samples(1, 16, little(0x8000, 2) + little(0x4000, 2)), (std::vector<float>{-1, 0.5}));
  EXPECT_EQ(samples(1, 24, little(0x800000, 3) + little(0x000001, 3)), (std::vector<float>{-1, 1.0f / 8388608}));
  EXPECT_EQ(samples(1, 32, little(0x80000000, 4) + little(0x7fffffff, 4)), (std::vector<float>{-1, 1}));
  EXPECT_EQ(samples(3, 32, little(std::bit_cast<std::uint32_t>(0.3f), 4)), (std::vector<float>{0.3f}));
  EXPECT_EQ(samples(3, 64, little(std::bit_cast<std::uint64_t>(0.3), 8)), (std::vector<float>{0.3f}));
}

TEST(Wav, PutsChannelsInFrontAndSkipsOtherChunks) {
  const std::string data = little(0x4000, 2) + little(0xc000, 2) + little(0x2000, 2) + little(0, 2);
  const Sound sound = load(wav(chunk("LIST", "odd") + format(1, 2, 16, 44100) + chunk("data", data) + "tail"));
  EXPECT_EQ(sound.rate, 44100);
  EXPECT_BITS_EQ(sound.samples, Tensor::from(std::vector<float>{0.5, 0.25, -0.5, 0}, {2, 2}, Device{}));
}

TEST(Wav, ReadsExtensibleFormats) {
  const std::string extension = little(22, 2) + little(16, 2) + little(0, 4) + little(1, 2) + std::string(14, 'g');
  const std::string plain = format(0xfffe, 1, 16).substr(8);
  const Sound sound = load(wav(chunk("fmt ", plain + extension) + chunk("data", little(0x4000, 2))));
  EXPECT_EQ(sound.samples.to_vector<float>(), (std::vector<float>{0.5}));
}

TEST(Wav, ReadsToTheEndWhereTheSizeIsUnknown) {
  const std::string piped = wav(format(1, 1, 16) + "data" + little(0xffffffff, 4) + little(0x4000, 2) + little(0, 2));
  EXPECT_EQ(load(piped).samples.to_vector<float>(), (std::vector<float>{0.5, 0}));
}

TEST(Wav, RefusesWhatIsWrong) {
  const auto refused = [](const std::string& content, const std::string& why) {
    expect_error<FormatError>([&] { load(content); }, {"sound.wav", why});
  };
  const std::string data = chunk("data", "abcd");
  refused("", "is not a WAV file");
  refused("RIFF\0\0\0\0AVI "s, "is not a WAV file");
  refused(wav(""), "has no samples");
  refused(wav(format(1, 1, 16)), "has no samples");
  refused(wav(data), "before their format");
  refused(wav(format(1, 1, 16) + format(1, 1, 16) + data), "two formats");
  refused(wav(format(2, 1, 4) + data), "coding 2 with 4 bits");
  refused(wav(format(3, 1, 16) + data), "coding 3 with 16 bits");
  refused(wav(format(1, 0, 16) + data), "0 channels");
  refused(wav(format(1, 65, 16) + data), "65 channels");
  refused(wav(format(1, 1, 16, 0) + data), "a rate of 0");
  refused(wav(format(1, 1, 16) + chunk("data", "abc")), "no whole frames");
  refused(wav(format(1, 1, 16) + data).substr(0, 44), "\"data\"");
  refused(wav(format(1, 1, 16) + "data" + little(0xffffffff, 4) + "abc"), "no whole frames");
  for (const std::uint32_t bits : {0x7f800000u, 0xff800000u, 0x7fc00000u}) {
    refused(wav(format(3, 1, 32) + chunk("data", little(0, 4) + little(bits, 4))), "an infinity or NaN");
  }
  std::string frame = wav(format(1, 1, 16) + data);
  frame[12 + 8 + 12] = 3;
  refused(frame, "does not have 3 bytes");
}

}  // namespace
}  // namespace lockstep::io
