// Checkpoints: everything a run needs to go on as if it had never stopped, in one safetensors file per checkpoint and
// one directory per run. A group of processes writes slices beside it, each its own, which the file names.
//
//   ls::train::Checkpoint saved{.step = step};
//   saved.add("model", model).add("optimizer", optimizer).add("loader", loader);
//   ls::train::save_checkpoint("runs/1", saved);
//   ...
//   if (const auto found = ls::train::load_latest("runs/1")) {
//     found->restore("model", model);
//     found->restore("optimizer", optimizer);
//     found->restore("loader", loader);
//   }
//
// A file appears under its name only when it is complete and on the disk: whatever ends the program, and whenever, the
// checkpoints before stay as they are. A checkpoint restored bit by bit continues to the same bits.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/dist.h>
#include <lockstep/export.h>
#include <lockstep/nn/module.h>
#include <lockstep/random.h>

namespace lockstep {
inline namespace v0 {
namespace train {

/// Whatever has a state: modules, optimisers, schedules, loaders.
template <typename T>
concept Stateful = requires(T& object, const T& constant, const nn::StateDict& state) {
  nn::StateDict(constant.state_dict());
  object.load_state_dict(state);
};

/// A generator's seed and number of draws, and back. ValueError unless `state` is just that.
LOCKSTEP_API nn::StateDict state_dict(const Generator& generator);
LOCKSTEP_API void load_state_dict(Generator& generator, const nn::StateDict& state, CallSite site = {});

/// Where a run stands: all that the next step depends on, and values of the user.
struct LOCKSTEP_API Checkpoint {
  std::int64_t step = 0;
  /// State dicts by name: "model", "optimizer", "schedule", "loader", "generator" by custom.
  std::map<std::string, nn::StateDict, std::less<>> parts;
  /// The user's own values: the best accuracy so far, the name of the architecture.
  std::map<std::string, double, std::less<>> scalars;
  std::map<std::string, std::string, std::less<>> texts;

  template <Stateful T> Checkpoint& add(const std::string& part, const T& object) {
    parts[part] = object.state_dict();
    return *this;
  }
  Checkpoint& add(const std::string& part, const Generator& generator) {
    parts[part] = train::state_dict(generator);
    return *this;
  }

  /// The part of that name. ValueError names those that there are.
  const nn::StateDict& part(std::string_view name, CallSite site = {}) const;

  /// Gives an object the state of a part; throws what its load_state_dict throws. A module must have the checkpoint's
  /// dtypes, too: DTypeError, where Module::load_state_dict would cast.
  template <Stateful T> void restore(std::string_view name, T& object, CallSite site = {}) const {
    const nn::StateDict& state = part(name, site);
    if constexpr (std::derived_from<T, nn::Module>) {
      check_dtypes(name, object, site);
      object.load_state_dict(state, {}, site);
    } else if constexpr (requires { object.load_state_dict(state, site); }) {
      object.load_state_dict(state, site);
    } else {
      object.load_state_dict(state);
    }
  }
  void restore(std::string_view name, Generator& generator, CallSite site = {}) const {
    load_state_dict(generator, part(name, site), site);
  }

  /// DTypeError unless what the part of that name has of the module's is of the module's dtypes.
  void check_dtypes(std::string_view name, const nn::Module& module, CallSite site = {}) const;
};

struct SaveCheckpointOptions {
  /// Checkpoints that remain, counted from the newest; 0: all. Older ones are removed after the new one is safe.
  int keep = 3;
};

/// Writes `directory`/step-<step>.safetensors, with the directory if there is none, and returns its path. One of the
/// same step is replaced. Also removes what saves that were killed left behind. One process at a time per directory.
/// Throws IoError if writing fails (a full disk): what was there remains. ValueError for a negative step, an empty part
/// name or one with "/", and texts that are not UTF-8.
LOCKSTEP_API std::string save_checkpoint(const std::string& directory, const Checkpoint& checkpoint,
                                         SaveCheckpointOptions options = {}, CallSite site = {});

/// The same by all ranks of a group at once, each of which calls it with the tensors that it is to save; step, scalars,
/// texts and the names of parts are those of rank 0. Every rank writes a slice, and then rank 0 the file that names
/// them with their hashes, so that until the end the checkpoint before counts. A rank that cannot write throws IoError,
/// and so do all others, naming it. Reading does not depend on the number of ranks, and needs all files.
LOCKSTEP_API std::string save_checkpoint(const std::string& directory, const Checkpoint& own, const dist::Group& group,
                                         SaveCheckpointOptions options = {}, CallSite site = {});

/// Reads one file, and its slices. Throws IoError if it cannot be read; FormatError if it is no checkpoint, or is
/// truncated or damaged: a hash over all tensors is verified.
LOCKSTEP_API Checkpoint load_checkpoint(const std::string& path);

/// The checkpoint of the highest step; nothing if the directory is missing or holds none. Throws like load_checkpoint:
/// a damaged file is not passed over silently.
LOCKSTEP_API std::optional<Checkpoint> load_latest(const std::string& directory);

/// Removes the file, and then its slices.
LOCKSTEP_API void remove_checkpoint(const std::string& path);

/// Paths of the directory's checkpoints, lowest step first; none if there is no directory.
LOCKSTEP_API std::vector<std::string> list_checkpoints(const std::string& directory);

}  // namespace train
}  // namespace v0
}  // namespace lockstep
