// Downloads from a hub on this machine that redirects, cuts, lies and refuses.
#include <lockstep/io/hub.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>

#include "io/hub/curl.h"
#include "support/files.h"
#include "support/http_server.h"

namespace lockstep::io {
namespace {

using lockstep::test::http_answer;
using lockstep::test::HttpServer;
using lockstep::test::message_of;
using lockstep::test::read_whole_file;
using lockstep::test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";
// hashlib's SHA-256 of "weights " a thousand times, and git's name of the blob {"a": 1} with its end of line.
const std::string kWeightsName = "89e13a94981ddc68d5fc6c558b2f7aa697a9fcdddecf01c864564a84100c968b";
const std::string kSmallName = "cb5b2f69babc53f9145b45ad20b9a075d48717ef";
const std::string kSmall = "{\"a\": 1}\n";

std::string weights() {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "weights ";
  return text;
}

// As the hub answers for a large file: it is elsewhere.
std::string large_file(const std::string& location, const std::string& name = kWeightsName, std::size_t bytes = 8000) {
  return http_answer("302 Found",
                     {"Location: " + location, "X-Repo-Commit: " + kCommit, "X-Linked-Etag: \"" + name + "\"",
                      "X-Linked-Size: " + std::to_string(bytes), "ETag: \"of-the-redirection\""});
}

class Hub : public testing::Test {
 protected:
  // What `content` sends for GET; the first request is of the hub.
  std::string fetch(const HttpServer::Handler& content, const std::string& name = kWeightsName,
                    std::size_t bytes = 8000) {
    server_.reset();
    server_ = std::make_unique<HttpServer>([this, content, name, bytes](const HttpServer::Request& request) {
      if (request.method == "HEAD") return large_file(server_->address("localhost") + "/content", name, bytes);
      return content(request);
    });
    return hub_file("owner/name", "folder/model.safetensors", "main", options(*server_));
  }
  HubOptions options(const HttpServer& server) const {
    return {.endpoint = server.address(),
            .cache = folder_.path("hub"),
            .token = "secret",
            .offline = false,
            .retry_wait = 0.001};
  }
  std::string in_cache(const std::string& name) const { return folder_.path("hub/models--owner--name/" + name); }

  TemporaryFolder folder_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(Hub, KeepsALargeFileInTheLayoutOfHuggingFace) {
  const HttpServer::Handler whole = [](const auto&) { return http_answer("200 OK", {}, weights()); };
  const std::string path = fetch(whole);
  EXPECT_EQ(path, in_cache("snapshots/" + kCommit + "/folder/model.safetensors"));
  EXPECT_EQ(read_whole_file(path), weights());
  EXPECT_EQ(std::filesystem::read_symlink(path), "../../../blobs/" + kWeightsName);
  EXPECT_EQ(read_whole_file(in_cache("refs/main")), kCommit);
  EXPECT_THAT(server_->requests(),
              ElementsAre("HEAD /owner/name/resolve/main/folder/model.safetensors", "GET /content"));
  // What is there is not fetched again; a commit never changes, and is not even asked for.
  EXPECT_EQ(hub_file("owner/name", "folder/model.safetensors", "main", options(*server_)), path);
  EXPECT_EQ(server_->requests().size(), 3u);
  EXPECT_EQ(hub_file("owner/name", "folder/model.safetensors", kCommit, options(*server_)), path);
  EXPECT_EQ(local_file("hf:owner/name@" + kCommit + "/folder/model.safetensors", options(*server_)), path);
  EXPECT_EQ(server_->requests().size(), 3u);
  HubOptions offline = options(*server_);
  offline.offline = true;
  EXPECT_EQ(local_file("hf:owner/name/folder/model.safetensors", offline), path);
  EXPECT_THAT(message_of<IoError>([&] { local_file("hf:owner/name/other", offline); }), HasSubstr("HF_HUB_OFFLINE"));
  EXPECT_EQ(server_->requests().size(), 3u);
}

TEST_F(Hub, SmallFilesComeFromTheHubItself) {
  const HttpServer server([](const HttpServer::Request& request) {
    if (request.path.starts_with("/datasets/old/")) {
      return http_answer("307 Temporary Redirect", {"Location: /datasets/owner/name/resolve/main/labels.json"});
    }
    EXPECT_EQ(request.field("authorization"), "Bearer secret");
    const std::vector<std::string> fields{"X-Repo-Commit: " + kCommit, "ETag: W/\"" + kSmallName + "\""};
    if (request.method == "GET") return http_answer("200 OK", fields, kSmall);
    return http_answer("200 OK", {fields[0], fields[1], "Content-Length: 9"});
  });
  EXPECT_EQ(read_whole_file(local_file("hf:datasets/owner/name/labels.json", options(server))), kSmall);
  EXPECT_EQ(read_whole_file(local_file("hf:datasets/old/name/labels.json", options(server))), kSmall);
}

TEST_F(Hub, TheTokenGoesToTheHubOnly) {
  std::string seen = "none";
  fetch([&](const HttpServer::Request& request) {
    seen = request.field("authorization");
    return http_answer("200 OK", {}, weights());
  });
  EXPECT_EQ(seen, "");
}

TEST_F(Hub, GoesOnWhereItWasCut) {
  std::vector<std::string> ranges;
  const std::string path = fetch([&](const HttpServer::Request& request) {
    ranges.push_back(request.field("range"));
    if (ranges.size() == 1) return http_answer("200 OK", {"Content-Length: 8000"}, weights().substr(0, 3000));
    if (ranges.size() == 2) return std::string();  // closed without a word
    return http_answer("206 Partial Content", {"Content-Range: bytes 3000-7999/8000"}, weights().substr(3000));
  });
  EXPECT_EQ(read_whole_file(path), weights());
  EXPECT_THAT(ranges, ElementsAre("", "bytes=3000-", "bytes=3000-"));
}

TEST_F(Hub, AServerMayIgnoreTheRange) {
  int request_number = 0;
  const std::string path = fetch([&](const HttpServer::Request&) {
    if (++request_number == 1) return http_answer("200 OK", {"Content-Length: 8000"}, weights().substr(0, 3000));
    return http_answer("200 OK", {}, weights());
  });
  EXPECT_EQ(read_whole_file(path), weights());
}

TEST_F(Hub, WhatAnEarlierProcessLeftIsGoneOnFrom) {
  std::filesystem::create_directories(in_cache("blobs"));
  folder_.write("hub/models--owner--name/blobs/" + kWeightsName + ".incomplete", weights().substr(0, 100));
  const std::string path = fetch([&](const HttpServer::Request& request) {
    EXPECT_EQ(request.field("range"), "bytes=100-");
    return http_answer("206 Partial Content", {"Content-Range: bytes 100-7999/8000"}, weights().substr(100));
  });
  EXPECT_EQ(read_whole_file(path), weights());
}

TEST_F(Hub, AWrongContentNeverBecomesVisible) {
  std::string other = weights();
  other[4000] = 'W';
  const std::string message =
      message_of<IoError>([&] { fetch([&](const auto&) { return http_answer("200 OK", {}, other); }); });
  EXPECT_THAT(message, HasSubstr(kWeightsName));
  EXPECT_FALSE(std::filesystem::exists(in_cache("snapshots")));
  EXPECT_TRUE(std::filesystem::is_empty(in_cache("blobs")));
  // More than was announced is not taken, less is asked for again and then given up.
  EXPECT_THAT(
      message_of<IoError>([&] { fetch([](const auto&) { return http_answer("200 OK", {}, weights() + "x"); }); }),
      HasSubstr("8000"));
  EXPECT_THAT(message_of<IoError>([&] {
                fetch([](const auto& request) {
                  const bool more = request.field("range").empty();
                  return http_answer(more ? "200 OK" : "206 Partial Content", {"Content-Range: bytes 1000-"},
                                     more ? std::string(1000, ' ') : "");
                });
              }),
              HasSubstr("5 tries"));
  EXPECT_FALSE(std::filesystem::exists(in_cache("snapshots")));
}

TEST_F(Hub, WaitsForABusyServerAndGivesUpOnABrokenOne) {
  int request_number = 0;
  const HttpServer busy([&](const HttpServer::Request& request) {
    if (request.method == "HEAD" && ++request_number < 3)
      return http_answer("429 Too Many Requests", {"Retry-After: 0"});
    const std::vector<std::string> fields{"X-Repo-Commit: " + kCommit, "ETag: \"" + kSmallName + "\""};
    if (request.method == "GET") return http_answer("200 OK", fields, kSmall);
    return http_answer("200 OK", {fields[0], fields[1], "Content-Length: 9"});
  });
  const std::string path = hub_file("owner/name", "a.json", "main", options(busy));
  EXPECT_EQ(read_whole_file(path), kSmall);
  const HttpServer broken([](const auto&) { return http_answer("503 Service Unavailable"); });
  EXPECT_EQ(hub_file("owner/name", "a.json", "main", options(broken)), path);  // the version that was last seen
  EXPECT_THAT(message_of<IoError>([&] { hub_file("owner/name", "b.json", "main", options(broken)); }),
              HasSubstr("503"));
  EXPECT_THAT(message_of<IoError>([&] { fetch([](const auto&) { return http_answer("500 Internal Server Error"); }); }),
              HasSubstr("500"));
}

TEST_F(Hub, RefusalsSayWhatToDo) {
  const HttpServer server([](const HttpServer::Request& request) {
    if (request.path.starts_with("/owner/gated/"))
      return http_answer("403 Forbidden", {"X-Error-Message: \x1b[31mAsk first"});
    if (request.path.starts_with("/owner/odd/"))
      return http_answer("200 OK", {"ETag: \"../../x\"", "X-Repo-Commit: " + kCommit});
    if (request.path.starts_with("/owner/round/"))
      return http_answer("307 Temporary Redirect", {"Location: " + request.path});
    return http_answer("404 Not Found", {"X-Error-Code: EntryNotFound", "X-Error-Message: Entry not found"});
  });
  const auto message = [&](const std::string& repository) {
    return message_of<IoError>([&] { hub_file(repository, "a", "main", options(server)); });
  };
  EXPECT_THAT(message("owner/name"), HasSubstr("Entry not found"));
  EXPECT_THAT(message("owner/gated"),
              testing::AllOf(HasSubstr("Ask first"), HasSubstr("token"), testing::Not(HasSubstr("\x1b"))));
  EXPECT_THAT(message("owner/odd"), HasSubstr("does not answer as a hub"));
  EXPECT_THAT(message("owner/round"), HasSubstr("307"));
  HubOptions nowhere = options(server);
  nowhere.endpoint = "http://127.0.0.1:1";
  EXPECT_THAT(message_of<IoError>([&] { hub_file("owner/name", "a", "main", nowhere); }),
              HasSubstr("cannot be reached"));
}

TEST_F(Hub, OfManyAtOnceOneDownloads) {
  std::atomic<int> downloads = 0;
  server_ = std::make_unique<HttpServer>([&](const HttpServer::Request& request) {
    if (request.method == "HEAD") return large_file(server_->address() + "/content");
    ++downloads;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return http_answer("200 OK", {}, weights());
  });
  std::vector<std::thread> threads;
  std::vector<std::string> paths(4);
  for (std::string& path : paths)
    threads.emplace_back([&] { path = hub_file("owner/name", "m", "main", options(*server_)); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(downloads, 1);
  for (const std::string& path : paths) EXPECT_EQ(read_whole_file(path), weights());
}

TEST(HubNames, AreNoPathsOrAddresses) {
  const HubOptions options{.cache = "/nonexistent", .offline = true};
  for (const char* name : {"name", "owner/", "/name", "../name", "owner/..", "a/b/c", "owner/na me", "owner/n%2e",
                           "a--b/c", "datasets/name", "models/owner/name"}) {
    EXPECT_THROW(hub_file(name, "file", "main", options), ValueError) << name;
  }
  for (const char* file : {"", "/file", "../file", "a/../b", "a//b", "a/", "a?b", "a#b", "a\\b", "a\nb"}) {
    EXPECT_THROW(hub_file("owner/name", file, "main", options), ValueError) << file;
    EXPECT_THROW(hub_file("owner/name", "file", file, options), ValueError) << file;
  }
  for (const char* path :
       {"hf:", "hf:owner/name", "hf:owner", "hf:owner/name/", "hf:datasets/owner/name", "hf:owner/name@main"}) {
    EXPECT_THROW(local_file(path, options), ValueError) << path;
  }
  EXPECT_THROW(hub_file("owner/name", "file", "main", {.endpoint = "ftp://hub", .cache = "/nonexistent"}), ValueError);
  EXPECT_THROW(hub_file("owner/name", "file", "main", {.cache = "/nonexistent", .token = "a\r\nb"}), ValueError);
  EXPECT_EQ(local_file("photo.png"), "photo.png");
  EXPECT_EQ(local_file("./hf:x"), "./hf:x");
}

TEST(Curl, ThatIsNotThereIsNamedWithItsPackage) {
  const std::vector<std::string> names{"libcurl-that-nobody-has.so.4"};
  const std::string message = message_of<IoError>([&] { open_curl(names); });
  EXPECT_THAT(message, HasSubstr("libcurl-that-nobody-has.so.4"));
  EXPECT_THAT(message, HasSubstr("apt install libcurl4"));
}

TEST(Curl, AnotherLibraryIsNone) {
  const std::vector<std::string> names{"libc.so.6"};
  EXPECT_THAT(message_of<IoError>([&] { open_curl(names); }), HasSubstr("libc.so.6 lacks curl_global_init"));
}

}  // namespace
}  // namespace lockstep::io
