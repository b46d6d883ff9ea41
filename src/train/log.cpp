#include <lockstep/train/log.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>

#include "core/checked.h"
#include "core/os.h"
#include "train/log_file.h"

namespace lockstep {
inline namespace v0 {
namespace train {

Log::~Log() = default;

LogFile::LogFile(std::string path, bool append) : path_(std::move(path)) {
  file_.reset(std::fopen(path_.c_str(), append ? "ab" : "wb"));
  if (file_ == nullptr) fail();
}

void LogFile::write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size() || std::fflush(file_.get()) != 0) fail();
}

void LogFile::fail() const {
  throw IoError(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
}

namespace {

constexpr std::string_view kHeader = "step,epoch,split,loss,accuracy,lr,samples_per_second,seconds\n";

std::string read_text(const std::string& path) {
  const os::FileBytes file = os::read_file(path);
  return std::string(text_of(file.bytes));
}

// The whole lines of a file; a last one that was cut short is not among them.
std::vector<std::string> whole_lines(const std::string& path) {
  const std::string text = read_text(path);
  std::vector<std::string> lines;
  for (std::size_t start = 0, end = 0; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    lines.push_back(text.substr(start, end - start));
  }
  return lines;
}

// Rewrites the file with the lines that `keep` chooses, or empties it, and opens it for more.
template <typename Keep>
LogFile reopen(const std::string& path, std::int64_t keep_steps, std::string_view header, Keep keep) {
  std::string kept(header);
  if (keep_steps > 0 && std::filesystem::exists(path)) {
    for (const std::string& line : whole_lines(path)) {
      if (keep(line)) kept += line + '\n';
    }
  }
  os::AtomicFile file(path);
  file.write(kept);
  file.commit();
  return LogFile(path, true);
}

std::string number(double value) {
  if (std::isnan(value)) return "";
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

class CsvLog : public Log {
 public:
  CsvLog(const std::string& path, std::int64_t keep_steps)
      : file_(reopen(path, keep_steps, kHeader, [keep_steps](const std::string& line) {
          std::int64_t step = 0;
          const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
          return error == std::errc{} && end != line.data() + line.size() && *end == ',' && step <= keep_steps;
        })) {}

  void write(const Record& record) override {
    file_.write(fmt::format("{},{},{},{},{},{},{},{}\n", record.step, record.epoch, record.split, number(record.loss),
                            number(record.accuracy), number(record.lr), number(record.samples_per_second),
                            number(record.seconds)));
  }

 private:
  LogFile file_;
};

// The measurements of a record by name, in the order in which they are written.
struct Field {
  const char* name;
  double Record::*value;
};
constexpr Field kFields[] = {{"loss", &Record::loss},
                             {"accuracy", &Record::accuracy},
                             {"lr", &Record::lr},
                             {"samples_per_second", &Record::samples_per_second},
                             {"seconds", &Record::seconds}};

std::optional<Record> parse(const std::string& line) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto integer = [&](const char* key) { return object.contains(key) && object[key].is_number_integer(); };
  if (!integer("step") || !integer("epoch") || !object.contains("split") || !object["split"].is_string()) {
    return std::nullopt;
  }
  Record record{.step = object["step"], .epoch = object["epoch"], .split = object["split"]};
  for (const Field& field : kFields) {
    if (object.contains(field.name) && object[field.name].is_number()) record.*field.value = object[field.name];
  }
  if (object.contains("numerics") && object["numerics"].is_string()) record.numerics = object["numerics"];
  return record;
}

class JsonLog : public Log {
 public:
  JsonLog(const std::string& path, std::int64_t keep_steps)
      : file_(reopen(path, keep_steps, "", [keep_steps](const std::string& line) {
          const std::optional<Record> record = parse(line);
          return record && record->step <= keep_steps;
        })) {}

  void write(const Record& record) override {
    nlohmann::ordered_json object;
    object["step"] = record.step;
    object["epoch"] = record.epoch;
    object["split"] = record.split;
    for (const Field& field : kFields) {
      if (!std::isnan(record.*field.value)) object[field.name] = record.*field.value;
    }
    if (!record.numerics.empty()) object["numerics"] = record.numerics;
    file_.write(object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n');
  }

 private:
  LogFile file_;
};

}  // namespace

std::unique_ptr<Log> csv_log(const std::string& path, std::int64_t keep_steps) {
  return std::make_unique<CsvLog>(path, keep_steps);
}

std::unique_ptr<Log> json_log(const std::string& path, std::int64_t keep_steps) {
  return std::make_unique<JsonLog>(path, keep_steps);
}

std::vector<Record> read_json_log(const std::string& path, std::int64_t up_to_step) {
  std::vector<Record> records;
  std::size_t number_of_line = 0;
  for (const std::string& line : whole_lines(path)) {
    ++number_of_line;
    const std::optional<Record> record = parse(line);
    if (!record) throw FormatError(fmt::format("{}:{}: not a record of training", path, number_of_line));
    if (record->step <= up_to_step) records.push_back(*record);
  }
  return records;
}

}  // namespace train
}  // namespace v0
}  // namespace lockstep
