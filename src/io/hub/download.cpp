#include "io/hub/download.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "core/os.h"
#include "io/hub/checksum.h"
#include "io/hub/http.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 5;
constexpr double kLongestWait = 60;
constexpr int kRedirections = 5;

std::optional<std::uint64_t> number_of(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "W/"abc"" is abc.
std::string bare_etag(std::string etag) {
  if (etag.starts_with("W/")) etag.erase(0, 2);
  std::erase(etag, '"');
  return etag;
}

bool is_worth_another_try(const HttpResponse& response) {
  return response.status == 0 || response.status == 408 || response.status == 429 || response.status >= 500 ||
         (response.status < 300 && !response.problem.empty());
}

void wait_before_retry(const HttpResponse& response, const HubOptions& options, int retry) {
  double seconds = options.retry_wait * static_cast<double>(1 << retry);
  if (const auto stated = number_of(response.field("retry-after"))) seconds = static_cast<double>(*stated);
  std::this_thread::sleep_for(std::chrono::duration<double>(std::min(seconds, kLongestWait)));
}

std::vector<std::string> fields_for(const std::string& url, const HubOptions& options) {
  std::vector<std::string> fields{"Accept-Encoding: identity"};
  if (!options.token.empty() && url.starts_with(options.endpoint + "/")) {
    fields.push_back("Authorization: Bearer " + options.token);
  }
  return fields;
}

std::string what_came(const HttpResponse& response) {
  if (response.status == 0 || !response.problem.empty()) return response.problem;
  const std::string message = response.field("x-error-message");
  return fmt::format("HTTP status {}{}", response.status, message.empty() ? "" : ", " + in_quotes(message));
}

[[noreturn]] void refuse(const HubEntry& entry, const HttpResponse& response, const HubOptions& options) {
  std::string fix;
  if (response.status == 401 || response.status == 403) {
    fix = options.token.empty()
              ? "set HF_TOKEN, if you have access to it"
              : "see on its page whether your token gives access, and whether terms are to be accepted";
  } else if (response.status == 404) {
    fix = "see which files the repository has: " + options.endpoint;
  }
  const std::string message = fmt::format("{}: {} says: {}{}", entry.name(), options.endpoint, what_came(response),
                                          fix.empty() ? "" : "\n  fix: " + fix);
  if (response.status == 404) throw NotOnHub(message);
  throw IoError(message);
}

// The content from where an earlier download was cut, or from its start.
class Download {
 public:
  Download(const HubEntry& entry, const HubAnswer& answer, std::string path, const HubOptions& options)
      : entry_(entry), answer_(answer), path_(std::move(path)), options_(options) {}

  void run() {
    std::error_code none;
    have_ = fs::exists(path_) ? fs::file_size(path_) : 0;
    if (answer_.bytes && have_ > *answer_.bytes) restart();
    check_space();
    for (int retry = 0; !(answer_.bytes && have_ == *answer_.bytes && fs::exists(path_, none)); ++retry) {
      const HttpResponse response = get();
      if (response.status == 416) {  // of bytes that it has not got
        restart();
      } else if (response.problem.empty() && (response.status == 200 || response.status == 206)) {
        if (!answer_.bytes || have_ == *answer_.bytes) break;
      } else if (!is_worth_another_try(response)) {
        refuse(entry_, response, options_);
      }
      if (too_much_) fail(fmt::format("sends more than the {} bytes that it announced", *answer_.bytes));
      if (retry + 1 == kTries) fail(fmt::format("sent no whole content in {} tries: {}", kTries, what_came(response)));
      wait_before_retry(response, options_, retry);
    }
    if (!has_content(path_, answer_.etag)) {
      restart();
      fail(fmt::format("sent a content that has not the checksum {}", answer_.etag));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw IoError(fmt::format("{}: {} {}", entry_.name(), options_.endpoint, what));
  }

  void restart() {
    os::remove_file(path_);
    have_ = 0;
  }

  void check_space() {
    if (!answer_.bytes) return;
    std::error_code error;
    const fs::space_info space = fs::space(fs::path(path_).parent_path(), error);
    if (!error && space.available < *answer_.bytes - have_) {
      throw IoError(fmt::format("{}: {} bytes are wanted in {}, and {} are free", entry_.name(), *answer_.bytes - have_,
                                fs::path(path_).parent_path().string(), space.available));
    }
  }

  HttpResponse get() {
    const std::uint64_t from = have_;
    std::ofstream file;
    const HttpRequest request{.url = answer_.url, .fields = fields_for(answer_.url, options_), .from = from};
    const HttpResponse response = send(request, [&](const HttpResponse& head, std::span<const std::byte> bytes) {
      if (head.status != 200 && head.status != 206) return true;  // the text of an error
      if (!file.is_open()) {
        // A server may send everything where a part was asked for.
        const bool resumed =
            head.status == 206 && head.field("content-range").starts_with(fmt::format("bytes {}-", from));
        if (!resumed) have_ = 0;
        file.open(path_, std::ios::binary | (resumed ? std::ios::app : std::ios::trunc));
      }
      too_much_ = answer_.bytes && bytes.size() > *answer_.bytes - have_;
      if (too_much_) return false;
      file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      if (!file) throw IoError(fmt::format("{}: cannot write the file", path_));
      have_ += bytes.size();
      if (options_.progress) options_.progress(have_, answer_.bytes.value_or(0));
      return true;
    });
    // No byte came of an empty file.
    if (!file.is_open() && response.problem.empty() && response.status == 200) file.open(path_, std::ios::binary);
    if (file.is_open()) {
      file.close();
      if (!file) throw IoError(fmt::format("{}: cannot write the file", path_));
    }
    return response;
  }

  const HubEntry& entry_;
  const HubAnswer& answer_;
  std::string path_;
  const HubOptions& options_;
  std::uint64_t have_ = 0;
  bool too_much_ = false;
};

}  // namespace

std::optional<HubAnswer> ask_hub(const HubEntry& entry, const HubOptions& options, std::string& problem) {
  std::string url = options.endpoint + entry.address();
  HttpResponse response;
  for (int retry = 0, redirections = 0;;) {
    response = send({.url = url, .fields = fields_for(url, options), .head_only = true});
    const std::string location = response.field("location");
    // Within the hub: another name of the repository. To elsewhere: the content's place, and the fields are those of
    // it.
    if (response.status >= 300 && response.status < 400 && location.starts_with("/") && !location.starts_with("//")) {
      if (++redirections > kRedirections) refuse(entry, response, options);
      url = options.endpoint + location;
      continue;
    }
    if (!is_worth_another_try(response)) break;
    if (++retry == kTries || response.status == 0) break;
    wait_before_retry(response, options, retry - 1);
  }
  if (response.status == 0 || response.status >= 500) {
    problem = what_came(response);
    return std::nullopt;
  }
  if (response.status >= 400) refuse(entry, response, options);
  HubAnswer answer;
  const bool elsewhere = response.status >= 300;
  answer.url = elsewhere ? response.field("location") : url;
  answer.commit = response.field("x-repo-commit");
  const std::string linked = response.field("x-linked-etag");
  answer.etag = bare_etag(linked.empty() ? response.field("etag") : linked);
  answer.bytes = number_of(
      response.field(elsewhere || !response.field("x-linked-size").empty() ? "x-linked-size" : "content-length"));
  const bool is_file_name =
      !answer.etag.empty() && answer.etag.size() <= 128 &&
      std::all_of(answer.etag.begin(), answer.etag.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
      });
  const bool is_address = answer.url.starts_with("https://") || answer.url.starts_with("http://");
  if (!is_commit(answer.commit) || !is_file_name || !is_address) {
    throw IoError(fmt::format("{}: {} does not answer as a hub: no commit, etag or address of the content",
                              entry.name(), options.endpoint));
  }
  return answer;
}

void download(const HubEntry& entry, const HubAnswer& answer, const std::string& blob, const std::string& lock,
              const HubOptions& options) {
  os::make_directories(fs::path(blob).parent_path().string());
  os::make_directories(fs::path(lock).parent_path().string());
  std::optional<os::FileLock> mine;
  while (!fs::exists(blob) && !(mine = os::FileLock::take(lock))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  if (fs::exists(blob)) return;
  const std::string incomplete = blob + ".incomplete";
  Download(entry, answer, incomplete, options).run();
  std::error_code error;
  fs::rename(incomplete, blob, error);
  if (error) throw IoError(fmt::format("{}: cannot rename the file: {}", incomplete, error.message()));
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
