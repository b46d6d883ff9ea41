// The cache of hub files, in the layout of Python's huggingface_hub, which reads and writes it too:
//
//   models--owner--name/refs/<branch or tag>           the commit that it was last seen at
//   models--owner--name/blobs/<etag>                   contents, named by checksum; <etag>.incomplete while they come
//   models--owner--name/snapshots/<commit>/<file>      links to contents
//   .locks/models--owner--name/<etag>.lock             who downloads it
#pragma once

#include <optional>
#include <string>

#include <lockstep/io/hub.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// A file of a repository at a revision. Throws ValueError where a name is none, or would leave the cache's folders.
class HubEntry {
 public:
  HubEntry(std::string repository, std::string file, std::string revision);

  /// "owner/name@revision: file", for messages.
  std::string name() const;
  /// Where the hub has it, below its address.
  std::string address() const;

  /// The cached file at the revision's last known commit, or at the commit that the revision is.
  std::optional<std::string> cached(const std::string& cache) const;
  std::string blob(const std::string& cache, const std::string& etag) const;
  std::string lock(const std::string& cache, const std::string& etag) const;
  /// Links the content to the file's place at `commit`, and remembers that the revision is that commit. Returns the
  /// place.
  std::string link(const std::string& cache, const std::string& commit, const std::string& etag) const;

 private:
  std::string folder() const;
  std::string place(const std::string& cache, const std::string& commit) const;
  std::string repository_, file_, revision_;
};

bool is_commit(const std::string& revision);

/// The options, with what was empty taken from the environment.
HubOptions with_environment(HubOptions options);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
