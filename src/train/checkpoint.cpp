#include <lockstep/train/checkpoint.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/io/safetensors.h>

#include "core/hash.h"
#include "core/os.h"
#include "data/state.h"
#include "io/safetensors_writer.h"
#include "train/checkpoint_files.h"

namespace lockstep {
inline namespace v0 {
namespace train {
namespace {

// In the file a tensor's name is "<part>/<name>"; what is no tensor stands in the metadata under these names. A text's
// name follows "text/".
constexpr const char* kFormatKey = "format";
constexpr const char* kFormat = "lockstep-checkpoint-1";
constexpr const char* kStepKey = "step";
constexpr const char* kHashKey = "hash";
constexpr const char* kPartsKey = "parts";
constexpr std::string_view kTextPrefix = "text/";
constexpr std::string_view kScalarPart = "scalars";

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".safetensors";
constexpr int kStepDigits = 9;  // that are written at least, so that names sort like steps

std::optional<std::int64_t> parse_step(std::string_view text) {
  std::int64_t step = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (text.empty() || error != std::errc() || rest != text.data() + text.size() || step < 0) return std::nullopt;
  return step;
}

// Of the file's name; nothing for other files.
std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  if (name.size() < kPrefix.size() + kSuffix.size()) return std::nullopt;
  return parse_step(name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size()));
}

// Of everything that a bit can change without the format noticing: names, types, shapes and values.
std::string hash_of(const io::TensorMap& tensors, const std::map<std::string, std::string>& metadata) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    text += fmt::format("{} {} {} {:016x}\n", name, name_of(tensor.dtype()), tensor.shape().to_string(), tensor.hash());
  }
  for (const auto& [key, value] : metadata) {
    if (key != kHashKey) text += fmt::format("{}={}\n", key, value);
  }
  return fmt::format("{:016x}", hash_bytes(std::as_bytes(std::span(text))));
}

std::vector<std::pair<std::int64_t, std::string>> numbered(const std::string& directory) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  if (!os::is_directory(directory)) return found;
  for (const os::DirectoryEntry& entry : os::list_directory(directory)) {
    const auto step = step_of(entry.name);
    if (step && !entry.is_directory) found.emplace_back(*step, fmt::format("{}/{}", directory, entry.name));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

nn::StateDict state_dict(const Generator& generator) {
  nn::StateDict state;
  data::put_integer(state, "seed", generator.seed());
  data::put_integer(state, "draws", generator.draws());
  return state;
}

void load_state_dict(Generator& generator, const nn::StateDict& state, CallSite site) {
  const CallScope call("load_state_dict of a Generator", site);
  data::check_names(state, {"seed", "draws"});
  const std::uint64_t seed = data::get_integer(state, "seed");
  generator.restore(seed, data::get_integer(state, "draws"));
}

const nn::StateDict& Checkpoint::part(std::string_view name, CallSite site) const {
  const auto found = parts.find(name);
  if (found != parts.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& entry : parts) names.push_back(entry.first);
  const CallScope call("Checkpoint", site);
  fail<ValueError>(fmt::format("there is no part \"{}\"", name), {},
                   fmt::format("it has {}", names.empty() ? "none" : fmt::to_string(fmt::join(names, ", "))));
}

void Checkpoint::check_dtypes(const nn::StateDict& saved, const nn::Module& module, CallSite site) {
  const CallScope call("Checkpoint::restore", site);
  for (const auto& [key, own] : module.state_dict()) {
    const Tensor* value = saved.find(key);
    if (value == nullptr || value->dtype() == own.dtype()) continue;
    fail<DTypeError>(
        fmt::format("{} was saved as {}, and the module has {}", key, name_of(value->dtype()), name_of(own.dtype())),
        {{"checkpoint", *value}, {"module", own}},
        "continue with the dtype that the run began with, or cast: module.load_state_dict(part)");
  }
}

std::string write_checkpoint(const std::string& directory, const Checkpoint& checkpoint, SaveCheckpointOptions options,
                             os::SystemCalls& calls) {
  const auto refuse = [&](const std::string& what, const char* fix) { fail<ValueError>(what, {}, fix); };
  if (checkpoint.step < 0) refuse(fmt::format("step {} is negative", checkpoint.step), "count from 0");
  if (options.keep < 0) refuse(fmt::format("keep is {}", options.keep), "keep 1 or more, or 0 for all");
  io::TensorMap tensors;
  std::vector<std::string> names;
  for (const auto& [part, state] : checkpoint.parts) {
    if (part.empty() || part == kScalarPart || part.find_first_of("/,") != std::string::npos) {
      refuse(fmt::format("\"{}\" cannot be the name of a part", part), "use a word, e.g. \"model\"");
    }
    names.push_back(part);
    for (const auto& [name, tensor] : state) {
      if (!tensors.emplace(fmt::format("{}/{}", part, name), tensor).second) {
        refuse(fmt::format("{} has two tensors \"{}\"", part, name), "give each its own name");
      }
    }
  }
  for (const auto& [name, value] : checkpoint.scalars) {
    tensors.emplace(fmt::format("{}/{}", kScalarPart, name), Tensor::from(std::vector{value}, Shape(), Device{}));
  }
  std::map<std::string, std::string> metadata = {{kFormatKey, kFormat},
                                                 {kStepKey, fmt::to_string(checkpoint.step)},
                                                 {kPartsKey, fmt::to_string(fmt::join(names, ","))}};
  for (const auto& [name, text] : checkpoint.texts) metadata.emplace(fmt::format("{}{}", kTextPrefix, name), text);
  metadata.emplace(kHashKey, hash_of(tensors, metadata));

  os::make_directories(directory);
  os::remove_abandoned_temporaries(directory);
  const std::string path = fmt::format("{}/{}{:0{}}{}", directory, kPrefix, checkpoint.step, kStepDigits, kSuffix);
  io::write_safetensors(path, tensors, metadata, calls);

  if (options.keep > 0) {
    // Counted from this one: a run that went back to an earlier step keeps what it has just written.
    std::vector<std::pair<std::int64_t, std::string>> older = numbered(directory);
    std::erase_if(older, [&](const auto& item) { return item.first >= checkpoint.step; });
    const auto kept = static_cast<std::size_t>(options.keep - 1);
    for (std::size_t i = 0; i + kept < older.size(); ++i) os::remove_file(older[i].second);
  }
  return path;
}

std::string save_checkpoint(const std::string& directory, const Checkpoint& checkpoint, SaveCheckpointOptions options,
                            CallSite site) {
  const CallScope call("save_checkpoint", site);
  return write_checkpoint(directory, checkpoint, options, os::system_calls());
}

Checkpoint load_checkpoint(const std::string& path) {
  // Read, not mapped: the file may be removed or replaced while its tensors live.
  const io::TensorFile file = io::load_safetensors(path, {.map = false});
  const auto refuse = [&](const std::string& what) { throw FormatError(fmt::format("{}: {}", path, what)); };
  const auto metadata = [&](const char* key) {
    const auto found = file.metadata.find(key);
    return found == file.metadata.end() ? std::string() : found->second;
  };
  if (metadata(kFormatKey) != kFormat) {
    refuse("is a safetensors file, but not a checkpoint of a run; load weights with load_weights");
  }
  if (metadata(kHashKey) != hash_of(file.tensors, file.metadata)) {
    refuse("the checkpoint is damaged: its hash does not fit its content; load another one of its directory");
  }
  const auto step = parse_step(metadata(kStepKey));
  if (!step) refuse(fmt::format("\"{}\" is no step", metadata(kStepKey)));
  Checkpoint checkpoint{.step = *step};
  const std::string names = metadata(kPartsKey);
  for (std::size_t begin = 0; begin < names.size();) {  // parts without tensors exist, too
    const std::size_t end = std::min(names.find(',', begin), names.size());
    checkpoint.parts[names.substr(begin, end - begin)];
    begin = end + 1;
  }
  for (const auto& [name, tensor] : file.tensors) {
    const std::size_t slash = name.find('/');
    const std::string part = name.substr(0, slash);
    if (slash == std::string::npos) refuse(fmt::format("the tensor \"{}\" belongs to no part", name));
    if (part == kScalarPart) {
      if (tensor.dtype() != DType::f64 || tensor.numel() != 1) refuse(fmt::format("\"{}\" is no scalar", name));
      checkpoint.scalars.emplace(name.substr(slash + 1), tensor.item<double>());
    } else if (const auto found = checkpoint.parts.find(part); found != checkpoint.parts.end()) {
      found->second.push_back(name.substr(slash + 1), tensor);
    } else {
      refuse(fmt::format("the tensor \"{}\" belongs to no part", name));
    }
  }
  for (const auto& [key, text] : file.metadata) {
    if (key.starts_with(kTextPrefix)) checkpoint.texts.emplace(key.substr(kTextPrefix.size()), text);
  }
  return checkpoint;
}

std::optional<Checkpoint> load_latest(const std::string& directory) {
  const auto found = numbered(directory);
  if (found.empty()) return std::nullopt;
  return load_checkpoint(found.back().second);
}

std::vector<std::string> list_checkpoints(const std::string& directory) {
  std::vector<std::string> paths;
  for (const auto& item : numbered(directory)) paths.push_back(item.second);
  return paths;
}

}  // namespace train
}  // namespace v0
}  // namespace lockstep
