#include <lockstep/models/lora.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "core/checked.h"
#include "core/os.h"
#include "models/language/lora_files.h"
#include "models/language/parameters.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

const HasProjections& projections_of(const LanguageModel& model) {
  const auto* own = dynamic_cast<const HasProjections*>(&model);
  if (own == nullptr) throw ValueError(fmt::format("LoraAdapter: adapters of {} are not supported", model.family()));
  for (const auto& [path, slot] : own->projections()) {
    if (!slot->down.defined()) continue;
    throw ValueError(fmt::format(
        "LoraAdapter: the model has an adapter already, at {}\n  fix: merge() or remove() it before", path));
  }
  return *own;
}

bool is_target(const std::string& path, const std::string& target) {
  return path == target || path.ends_with("." + target);
}

// The part of a path that layers share: "q_proj", as targets are called.
std::string last_part(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

std::vector<std::string> chosen(const HasProjections& model, const std::vector<std::string>& targets) {
  std::set<std::string> known;
  std::set<std::string> paths;
  for (const auto& [path, slot] : model.projections()) {
    known.insert(last_part(path));
    if (targets.empty() && path != model.config().names.head) paths.insert(path);
  }
  for (const std::string& target : targets) {
    bool found = false;
    for (const auto& [path, slot] : model.projections()) {
      if (!is_target(path, target)) continue;
      paths.insert(path);
      found = true;
    }
    if (!found) {
      throw ValueError(fmt::format("LoraAdapter: the model has no projection {} (it has {})", in_quotes(target),
                                   fmt::join(known, ", ")));
    }
  }
  return {paths.begin(), paths.end()};
}

double scale_of(const LoraOptions& options, std::int64_t rank) {
  const auto r = static_cast<double>(rank);
  return options.alpha / (options.root_of_rank ? std::sqrt(r) : r);
}

void check(const LoraOptions& options) {
  if (options.rank < 1 || options.rank > kMostLoraRank) {
    throw ValueError(fmt::format("LoraAdapter: the rank is {}, not 1 to {}", options.rank, kMostLoraRank));
  }
  if (!std::isfinite(options.alpha)) throw ValueError("LoraAdapter: alpha is not finite");
}

// Rows of published projections have a head's halves one behind the other, those of some GGUF files as neighbours.
Tensor as_neighbours(const Tensor& rows, std::int64_t heads) {
  return rows.reshape({heads, 2, -1, rows.size(1)}).transpose(1, 2).reshape(rows.shape());
}
Tensor as_halves(const Tensor& rows, std::int64_t heads) {
  return rows.reshape({heads, -1, 2, rows.size(1)}).transpose(1, 2).reshape(rows.shape());
}

// Of a projection whose heads carry positions; 0 for all others.
std::int64_t rotated_heads(const DecoderConfig& config, const std::string& path) {
  if (is_target(path, config.names.layer.query)) return config.attention.heads;
  return is_target(path, config.names.layer.key) ? config.attention.kv_heads : 0;
}

void check_pair(const std::string& file, const std::string& path, const LoraPair& pair,
                const Projections& projections) {
  const auto found = projections.find(path);
  if (found == projections.end()) {
    throw ValueError(
        fmt::format("{}: the model has no projection {}: the adapter is another model's", file, in_quotes(path)));
  }
  if (!pair.down.defined() || !pair.up.defined()) {
    throw FormatError(fmt::format("{}: {} has only one of its two matrices, A and B", file, in_quotes(path)));
  }
  const ProjectionSlot& slot = *found->second;
  const std::int64_t rank = pair.down.rank() == 2 ? pair.down.size(0) : 0;
  if (rank < 1 || pair.down.shape() != Shape{rank, slot.in} || pair.up.shape() != Shape{slot.out, rank}) {
    throw ShapeError(fmt::format("{}: {} has the shapes {} and {}, not [rank, {}] and [{}, rank]", file,
                                 in_quotes(path), pair.down.shape().to_string(), pair.up.shape().to_string(), slot.in,
                                 slot.out));
  }
}

}  // namespace

struct LoraAdapter::Parts {
  explicit Parts(nn::Module& root) : tree(root) {}

  LoraOptions options;
  ParameterTree tree;
  std::map<std::string, std::shared_ptr<ProjectionSlot>> slots;

  // `up` has the model's order of rows.
  void put(const std::string& path, const std::shared_ptr<ProjectionSlot>& slot, const Tensor& down, const Tensor& up) {
    const Device device = slot->weight.device();
    slot->down = tree.parameter(path + std::string(kLoraDown), down.to(DType::f32).to(device));
    slot->up = tree.parameter(path + std::string(kLoraUp), up.to(DType::f32).to(device));
    slot->scale = scale_of(options, down.size(0));
    slots.emplace(path, slot);
  }
};

LoraAdapter::LoraAdapter(LanguageModel& model, LoraOptions options) : parts_(std::make_unique<Parts>(*this)) {
  check(options);
  const HasProjections& own = projections_of(model);
  parts_->options = options;
  for (const std::string& path : chosen(own, options.targets)) {
    const std::shared_ptr<ProjectionSlot>& slot = own.projections().at(path);
    const double bound = 1 / std::sqrt(static_cast<double>(slot->in));
    parts_->put(path, slot, uniform(-bound, bound, {options.rank, slot->in}), zeros({slot->out, options.rank}));
  }
  model.requires_grad(false);
}

LoraAdapter::LoraAdapter() : parts_(std::make_unique<Parts>(*this)) {}

std::unique_ptr<LoraAdapter> LoraAdapter::load(LanguageModel& model, const std::string& path) {
  const HasProjections& own = projections_of(model);
  std::unique_ptr<LoraAdapter> result(new LoraAdapter());
  Parts& parts = *result->parts_;
  const LoraFile file =
      std::filesystem::is_regular_file(path) ? read_lora_gguf(path, own.config()) : read_lora_folder(path);
  parts.options = file.options;
  for (const auto& [name, pair] : file.pairs) check_pair(file.path, name, pair, own.projections());
  std::set<std::string> targets;
  for (const auto& [name, pair] : file.pairs) {
    const std::shared_ptr<ProjectionSlot>& slot = own.projections().at(name);
    const std::int64_t heads = file.paired ? rotated_heads(own.config(), name) : 0;
    const Tensor published = heads > 0 ? as_halves(pair.up, heads) : pair.up;
    parts.put(name, slot, pair.down, slot->paired_heads > 0 ? as_neighbours(published, slot->paired_heads) : published);
    targets.insert(last_part(name));
  }
  parts.options.targets.assign(targets.begin(), targets.end());
  model.requires_grad(false);
  return result;
}

LoraAdapter::~LoraAdapter() = default;

const LoraOptions& LoraAdapter::options() const {
  return parts_->options;
}

// A text, since that is shorter than what would make it; the nulls are an adapter's own.
constexpr std::string_view kPeftConfig = R"({"peft_type":"LORA","task_type":"CAUSAL_LM","base_model_name_or_path":null,
"r":null,"lora_alpha":null,"lora_dropout":0.0,"use_rslora":null,"target_modules":null,"rank_pattern":null,
"alpha_pattern":{},"fan_in_fan_out":null,"bias":"none","init_lora_weights":true,"inference_mode":true})";

void LoraAdapter::save(const std::string& folder, const std::string& base_model) const {
  os::make_directories(folder);
  io::TensorMap tensors;
  std::set<std::string> targets;
  nlohmann::ordered_json ranks = nlohmann::ordered_json::object();
  for (const auto& [path, slot] : parts_->slots) {
    const Tensor& up = slot->up;
    const std::string name = std::string(kPeftPrefix) + path;
    tensors.emplace(name + std::string(kLoraDown), slot->down);
    tensors.emplace(name + std::string(kLoraUp), slot->paired_heads > 0 ? as_halves(up, slot->paired_heads) : up);
    targets.insert(last_part(path));
    if (up.size(1) != parts_->options.rank) ranks[path] = up.size(1);
  }
  io::save_safetensors(folder + "/adapter_model.safetensors", tensors, {{"format", "pt"}});
  const LoraOptions& options = parts_->options;
  // peft takes a name as the end of a path, as `targets` are; what it finds besides would lack its matrices.
  const std::vector<std::string> names =
      options.targets.empty() ? std::vector<std::string>(targets.begin(), targets.end()) : options.targets;
  bool transposed = false;
  for (const auto& [path, slot] : parts_->slots) transposed = transposed || slot->transposed;
  auto config = nlohmann::ordered_json::parse(kPeftConfig);
  config["base_model_name_or_path"] = base_model;
  config["r"] = options.rank;
  config["lora_alpha"] = options.alpha;
  config["use_rslora"] = options.root_of_rank;
  config["target_modules"] = names;
  config["rank_pattern"] = std::move(ranks);
  config["fan_in_fan_out"] = transposed;
  os::AtomicFile file(folder + "/adapter_config.json");
  file.write(config.dump(2) + "\n");
  file.commit();
}

void LoraAdapter::merge() {
  for (const auto& [path, slot] : parts_->slots) {
    if (slot->weight.tensor().encoding() == Encoding::dense) continue;
    throw ValueError(fmt::format(
        "LoraAdapter::merge: the weights of {} are packed, and would be rounded again\n  fix: load the model with "
        "LanguageLoadOptions{{.packed = false}}",
        path));
  }
  const NoGrad no_grad;
  for (const auto& [path, slot] : parts_->slots) {
    const Tensor change = matmul(slot->up, slot->down) * slot->scale;
    slot->weight.set((Tensor(slot->weight) + (slot->transposed ? change.transpose(0, 1) : change)).eval());
  }
  remove();
}

void LoraAdapter::remove() {
  for (const auto& [path, slot] : parts_->slots) slot->down = slot->up = nn::Parameter();
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
