// Files of published models: downloaded once from the Hugging Face hub, or a server that speaks its protocol, and kept
// in the cache that Python's huggingface_hub uses too, in its layout.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// What is left empty is taken from the environment, by the names that huggingface_hub reads.
struct HubOptions {
  std::string endpoint;         ///< $HF_ENDPOINT, else https://huggingface.co
  std::string cache;            ///< $HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub
  std::string token;            ///< $HF_TOKEN, else what stands in $HF_HOME/token; sent to the endpoint only
  std::optional<bool> offline;  ///< $HF_HUB_OFFLINE: nothing is asked of the network
  /// Called during a download with the bytes that are there and all of them.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
  /// Before the first of four retries after a cut connection or a busy server, in seconds; doubled each time. A
  /// server's own Retry-After goes first.
  double retry_wait = 0.5;
};

/// The path of a file of a hub repository on this machine; downloads it if the cache has not got this version of it.
/// `repository` is "owner/name", or "datasets/owner/name"; `revision` a branch, a tag or a commit. A download is
/// resumed where an earlier one was cut, is compared with the size and the checksum that the hub states, and becomes
/// visible when it is whole; of several processes one downloads, the others wait. Where the network cannot be reached,
/// the version that was last seen is used. Proxies are taken from the environment ($https_proxy, $no_proxy). Throws
/// ValueError for a name that is none; IoError if the hub has no such file, refuses it (the message says what to do),
/// sends something else than it announced, or cannot be reached while nothing is in the cache.
LOCKSTEP_API std::string hub_file(const std::string& repository, const std::string& file,
                                  const std::string& revision = "main", const HubOptions& options = {});

/// The same; nothing where the repository has no such file, or while offline where the cache has none.
LOCKSTEP_API std::optional<std::string> find_hub_file(const std::string& repository, const std::string& file,
                                                      const std::string& revision = "main",
                                                      const HubOptions& options = {});

/// What "hf:..." names.
struct HubName {
  std::string repository;
  std::string revision = "main";
  std::string file;  ///< Empty for a whole repository.
};
/// Nothing for a path that does not begin with "hf:"; ValueError for a name that is none.
LOCKSTEP_API std::optional<HubName> parse_hub_name(const std::string& path);

/// "hf:owner/name/file", "hf:owner/name@revision/folder/file" or "hf:datasets/owner/name/file": the path that hub_file
/// gives. Anything else is a path already, and returned as it is.
LOCKSTEP_API std::string local_file(const std::string& path, const HubOptions& options = {});

}  // namespace io
}  // namespace v0
}  // namespace lockstep
