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
constexpr const char* kSlicedFormat = "lockstep-checkpoint-2";
constexpr const char* kSliceFormat = "lockstep-checkpoint-slice-1";
constexpr const char* kSlicesKey = "slices";  // lines of "<name> <hash>"
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

void Checkpoint::check_dtypes(std::string_view name, const nn::Module& module, CallSite site) const {
  const nn::StateDict& saved = part(name, site);
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

namespace {

[[noreturn]] void refuse(const std::string& what, const char* fix) {
  fail<ValueError>(what, {}, fix);
}

io::TensorMap tensors_of(const Checkpoint& checkpoint) {
  io::TensorMap tensors;
  for (const auto& [part, state] : checkpoint.parts) {
    if (part.empty() || part == kScalarPart || part.find_first_of("/,") != std::string::npos) {
      refuse(fmt::format("\"{}\" cannot be the name of a part", part), "use a word, e.g. \"model\"");
    }
    for (const auto& [name, tensor] : state) {
      if (!tensors.emplace(fmt::format("{}/{}", part, name), tensor).second) {
        refuse(fmt::format("{} has two tensors \"{}\"", part, name), "give each its own name");
      }
    }
  }
  return tensors;
}

std::string metadata_of(const io::TensorFile& file, const char* key) {
  const auto found = file.metadata.find(key);
  return found == file.metadata.end() ? std::string() : found->second;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::vector<Slice> parse_slices(const std::string& text, const std::string& path) {
  std::vector<Slice> slices;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::size_t space = text.find(' ', begin);
    const Slice slice =
        space < end ? Slice{text.substr(begin, space - begin), text.substr(space + 1, end - space - 1)} : Slice{};
    if (!slice.name.starts_with(kSlicePrefix) || slice.name.find('/') != std::string::npos) {
      throw FormatError(fmt::format("{}: the list of slices makes no sense", path));
    }
    slices.push_back(slice);
    begin = end + 1;
  }
  return slices;
}

}  // namespace

Slice write_slice(const std::string& directory, const std::string& name, const Checkpoint& checkpoint,
                  os::SystemCalls& calls) {
  const io::TensorMap tensors = tensors_of(checkpoint);
  std::map<std::string, std::string> metadata = {{kFormatKey, kSliceFormat}};
  const std::string hash = hash_of(tensors, metadata);
  metadata.emplace(kHashKey, hash);
  io::write_safetensors(fmt::format("{}/{}", directory, name), tensors, metadata, calls);
  return {name, hash};
}

std::pair<io::TensorMap, std::string> read_slice(const std::string& path) {
  io::TensorFile file = io::load_safetensors(path, {.map = false});
  if (metadata_of(file, kFormatKey) != kSliceFormat) {
    throw FormatError(fmt::format("{}: is no slice of a checkpoint", path));
  }
  std::string hash = hash_of(file.tensors, file.metadata);
  return {std::move(file.tensors), std::move(hash)};
}

std::vector<Slice> slices_of(const std::string& path) {
  return parse_slices(metadata_of(io::load_safetensors(path), kSlicesKey), path);
}

void remove_checkpoint(const std::string& path) {
  std::vector<Slice> slices;
  try {
    slices = slices_of(path);
  } catch (const FormatError&) {
    // Damaged: its slices are lost, and go with those of the next save.
  }
  os::remove_file(path);
  for (const Slice& slice : slices) os::remove_file(fmt::format("{}/{}", folder_of(path), slice.name));
}

void remove_lost_slices(const std::string& directory) {
  std::set<std::string> named;
  try {
    for (const std::string& path : list_checkpoints(directory)) {
      for (const Slice& slice : slices_of(path)) named.insert(slice.name);
    }
  } catch (const FormatError&) {
    return;  // who knows what a damaged one had
  }
  for (const os::DirectoryEntry& entry : os::list_directory(directory)) {
    const bool is_slice = !entry.is_directory && entry.name.starts_with(kSlicePrefix) && entry.name.ends_with(kSuffix);
    if (is_slice && !named.contains(entry.name)) os::remove_file(fmt::format("{}/{}", directory, entry.name));
  }
}

std::string write_checkpoint(const std::string& directory, const Checkpoint& checkpoint, SaveCheckpointOptions options,
                             os::SystemCalls& calls, const std::vector<Slice>& slices) {
  if (checkpoint.step < 0) refuse(fmt::format("step {} is negative", checkpoint.step), "count from 0");
  if (options.keep < 0) refuse(fmt::format("keep is {}", options.keep), "keep 1 or more, or 0 for all");
  io::TensorMap tensors;
  if (slices.empty()) tensors = tensors_of(checkpoint);
  std::vector<std::string> names;
  for (const auto& [part, state] : checkpoint.parts) names.push_back(part);
  for (const auto& [name, value] : checkpoint.scalars) {
    tensors.emplace(fmt::format("{}/{}", kScalarPart, name), Tensor::from(std::vector{value}, Shape(), Device{}));
  }
  std::map<std::string, std::string> metadata = {{kFormatKey, slices.empty() ? kFormat : kSlicedFormat},
                                                 {kStepKey, fmt::to_string(checkpoint.step)},
                                                 {kPartsKey, fmt::to_string(fmt::join(names, ","))}};
  for (const auto& [name, text] : checkpoint.texts) metadata.emplace(fmt::format("{}{}", kTextPrefix, name), text);
  std::string list;
  for (const Slice& slice : slices) list += fmt::format("{} {}\n", slice.name, slice.hash);
  if (!slices.empty()) metadata.emplace(kSlicesKey, list);
  metadata.emplace(kHashKey, hash_of(tensors, metadata));

  os::make_directories(directory);
  if (slices.empty()) os::remove_abandoned_temporaries(directory);  // else before they were written
  const std::string path = fmt::format("{}/{}{:0{}}{}", directory, kPrefix, checkpoint.step, kStepDigits, kSuffix);
  io::write_safetensors(path, tensors, metadata, calls);

  if (options.keep > 0) {
    // Counted from this one: a run that went back to an earlier step keeps what it has just written.
    std::vector<std::pair<std::int64_t, std::string>> older = numbered(directory);
    std::erase_if(older, [&](const auto& item) { return item.first >= checkpoint.step; });
    const auto kept = static_cast<std::size_t>(options.keep - 1);
    for (std::size_t i = 0; i + kept < older.size(); ++i) remove_checkpoint(older[i].second);
  }
  remove_lost_slices(directory);
  return path;
}

std::string save_checkpoint(const std::string& directory, const Checkpoint& checkpoint, SaveCheckpointOptions options,
                            CallSite site) {
  const CallScope call("save_checkpoint", site);
  return write_checkpoint(directory, checkpoint, options, os::system_calls());
}

Checkpoint load_checkpoint(const std::string& path) {
  // Read, not mapped: the file may be removed or replaced while its tensors live.
  io::TensorFile file = io::load_safetensors(path, {.map = false});
  const auto refuse = [&](const std::string& what) { throw FormatError(fmt::format("{}: {}", path, what)); };
  const auto metadata = [&](const char* key) { return metadata_of(file, key); };
  if (metadata(kFormatKey) != kFormat && metadata(kFormatKey) != kSlicedFormat) {
    refuse("is a safetensors file, but not a checkpoint of a run; load weights with load_weights");
  }
  if (metadata(kHashKey) != hash_of(file.tensors, file.metadata)) {
    refuse("the checkpoint is damaged: its hash does not fit its content; load another one of its directory");
  }
  for (const Slice& slice : parse_slices(metadata(kSlicesKey), path)) {
    auto [tensors, hash] = read_slice(fmt::format("{}/{}", folder_of(path), slice.name));
    if (hash != slice.hash) refuse(fmt::format("its slice {} is damaged, or of another one", slice.name));
    for (auto& [name, tensor] : tensors) {
      if (!file.tensors.emplace(name, tensor).second) refuse(fmt::format("two slices have the tensor \"{}\"", name));
    }
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
