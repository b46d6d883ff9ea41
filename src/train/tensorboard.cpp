// TensorBoard's event files: TFRecords (a length, the bytes, a checksum of each) of the protocol buffer `Event`, of
// which only scalars are written. Field numbers are those of tensorflow/core/util/event.proto and
// framework/summary.proto.
#include <lockstep/train/log.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/os.h"
#include "train/crc32c.h"
#include "train/log_file.h"

namespace lockstep {
inline namespace v0 {
namespace train {
namespace {

// --- protocol buffers -----------------------------------------------------------------------------------------------

enum class Wire : std::uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

class Message {
 public:
  void add(std::uint32_t field, double value) { fixed(field, Wire::fixed64, std::bit_cast<std::uint64_t>(value)); }
  void add(std::uint32_t field, float value) { fixed(field, Wire::fixed32, std::bit_cast<std::uint32_t>(value)); }
  void add(std::uint32_t field, std::int64_t value) {
    key(field, Wire::varint);
    varint(static_cast<std::uint64_t>(value));
  }
  void add(std::uint32_t field, std::string_view bytes) {
    key(field, Wire::bytes);
    varint(bytes.size());
    bytes_ += bytes;
  }
  void add(std::uint32_t field, const Message& message) { add(field, std::string_view(message.bytes_)); }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(std::uint32_t field, Wire wire) { varint(field << 3 | static_cast<std::uint32_t>(wire)); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(0x80 | (value & 0x7f));
    bytes_ += static_cast<char>(value);
  }
  template <typename Bits> void fixed(std::uint32_t field, Wire wire, Bits bits) {
    key(field, wire);
    append_little_endian(bytes_, bits);
  }

  std::string bytes_;
};

// --- events ---------------------------------------------------------------------------------------------------------

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Message event(std::int64_t step) {
  Message message;
  message.add(1, seconds_since_1970());  // Event.wall_time
  message.add(2, step);                  // Event.step
  return message;
}

class TensorBoardLog : public Log {
 public:
  TensorBoardLog(const std::string& folder, std::int64_t keep_steps) : file_(new_path(folder), false) {
    Message first = event(0);
    first.add(3, std::string_view("brain.Event:2"));  // Event.file_version
    put(first);
    // A session that starts at a step: what earlier files say about it and later ones is no longer true.
    Message start;
    start.add(1, std::int64_t{1});  // SessionLog.status = START
    Message session = event(keep_steps + 1);
    session.add(7, start);  // Event.session_log
    put(session);
  }

  void write(const Record& record) override {
    Message summary;
    const auto scalar = [&](const std::string& tag, double value) {
      if (std::isnan(value)) return;
      Message entry;
      entry.add(1, std::string_view(tag));      // Summary.Value.tag
      entry.add(2, static_cast<float>(value));  // Summary.Value.simple_value
      summary.add(1, entry);                    // Summary.value
    };
    scalar(record.split + "/loss", record.loss);
    scalar(record.split + "/accuracy", record.accuracy);
    scalar("lr", record.lr);
    scalar("samples_per_second", record.samples_per_second);
    if (summary.bytes().empty()) return;
    Message message = event(record.step);
    message.add(5, summary);  // Event.summary
    put(message);
  }

 private:
  // Of a name that no other file has, later than those of earlier runs.
  static std::string new_path(const std::string& folder) {
    os::make_directories(folder);
    const auto seconds = static_cast<std::int64_t>(seconds_since_1970());
    for (int count = 0;; ++count) {
      const std::string path = fmt::format("{}/events.out.tfevents.{}.{:03}.lockstep", folder, seconds, count);
      if (!std::filesystem::exists(path)) return path;
    }
  }

  void put(const Message& message) {
    std::string record;
    append_little_endian(record, static_cast<std::uint64_t>(message.bytes().size()));
    append_little_endian(record, masked(crc32c(record)));
    record += message.bytes();
    append_little_endian(record, masked(crc32c(message.bytes())));
    file_.write(record);
  }

  // A TFRecord's checksum: rotated and shifted, so that checksums of checksums are not weak.
  static std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }

  LogFile file_;
};

}  // namespace

std::unique_ptr<Log> tensorboard_log(const std::string& folder, std::int64_t keep_steps) {
  return std::make_unique<TensorBoardLog>(folder, keep_steps);
}

}  // namespace train
}  // namespace v0
}  // namespace lockstep
