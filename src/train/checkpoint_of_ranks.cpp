// A checkpoint that all ranks of a group write at once: slices first, and last the file that names them.
#include <algorithm>
#include <exception>
#include <functional>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/train/checkpoint.h>

#include "core/os.h"
#include "dist/message.h"
#include "train/checkpoint_files.h"

namespace lockstep {
inline namespace v0 {
namespace train {
namespace {

constexpr std::size_t kTextBytes = 16;  // of a hash

std::vector<std::string> texts_of_all(const dist::Group& group, const std::string& text) {
  std::vector<std::uint8_t> own(text.begin(), text.end());
  own.resize(kTextBytes);
  std::vector<std::string> all;
  for (const Tensor& one : group.all_gather(Tensor::from(own, {std::int64_t{kTextBytes}}, Device{}))) {
    const std::vector<std::uint8_t> theirs = one.to_vector<std::uint8_t>();
    all.emplace_back(theirs.begin(), std::find(theirs.begin(), theirs.end(), 0));
  }
  return all;
}

std::string new_name() {
  const dist::Challenge random = dist::random_challenge();
  std::string name;
  for (std::size_t i = 0; i < kTextBytes / 2; ++i) name += fmt::format("{:02x}", std::to_integer<int>(random[i]));
  return name;
}

// Does this rank's part, of which all others hear whether it was done: its result, 1 to kTextBytes characters.
std::vector<std::string> together(const dist::Group& group, const std::function<std::string()>& act) {
  std::string result;
  std::exception_ptr failure;
  try {
    result = act();
  } catch (...) {
    failure = std::current_exception();
  }
  const std::vector<std::string> all = texts_of_all(group, result);
  if (failure != nullptr) std::rethrow_exception(failure);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) continue;
    throw IoError(fmt::format("rank {} could not write its part of the checkpoint; the one before counts", rank));
  }
  return all;
}

}  // namespace

std::string write_checkpoint(const std::string& directory, const Checkpoint& own, const dist::Group& group,
                             SaveCheckpointOptions options, os::SystemCalls& calls) {
  if (group.size() == 1) return write_checkpoint(directory, own, options, calls);
  const bool is_first = group.rank() == 0;
  const std::string attempt = together(group, [&] {
                                if (!is_first) return std::string("-");
                                os::make_directories(directory);
                                os::remove_abandoned_temporaries(directory);
                                return new_name();
                              }).front();
  const auto name_of = [&](int rank) {
    return fmt::format("{}{:09}-{}-{}.safetensors", kSlicePrefix, own.step, attempt, rank);
  };
  const std::vector<std::string> hashes =
      together(group, [&] { return write_slice(directory, name_of(group.rank()), own, calls).hash; });
  std::vector<Slice> slices;
  for (int rank = 0; rank < group.size(); ++rank) {
    slices.push_back({name_of(rank), hashes[static_cast<std::size_t>(rank)]});
  }
  std::string path;
  together(group, [&] {
    if (is_first) path = write_checkpoint(directory, own, options, calls, slices);
    return std::string("-");
  });
  return path;
}

std::string save_checkpoint(const std::string& directory, const Checkpoint& own, const dist::Group& group,
                            SaveCheckpointOptions options, CallSite site) {
  const CallScope call("save_checkpoint", site);
  return write_checkpoint(directory, own, group, options, os::system_calls());
}

}  // namespace train
}  // namespace v0
}  // namespace lockstep
