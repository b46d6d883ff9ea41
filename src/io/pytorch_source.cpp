// PyTorch files as a TensorSource: all that stands in the pickle, or the state dict in it.
#include <algorithm>
#include <array>

#include "io/formats.h"
#include "io/pickle_document.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

// Under which keys training programs keep the state dict, most specific first.
constexpr std::array<std::string_view, 6> kStateDictKeys = {"state_dict", "model_state_dict", "model",
                                                            "net",        "weights",          "params"};

bool holds_tensors_itself(const PickleValue& dict) {
  for (std::size_t i = 0; i < dict.size(); ++i) {
    if (dict.value(i).kind() == PickleValue::Kind::tensor) return true;
  }
  return false;
}

PickleValue find_state_dict(PickleValue value) {
  for (;;) {
    if (value.kind() != PickleValue::Kind::dict || holds_tensors_itself(value)) return value;
    const auto key = std::find_if(kStateDictKeys.begin(), kStateDictKeys.end(), [&](std::string_view k) {
      return value.has(k) && value.get(k).kind() == PickleValue::Kind::dict;
    });
    if (key == kStateDictKeys.end()) return value;
    value = value.get(*key);  // ends: the tree is finite
  }
}

// Numbers and truths as such; what metadata have no type for (None, bytes) as Python prints it.
MetadataValue metadata_value(const PickleValue& value) {
  switch (value.kind()) {
    case PickleValue::Kind::boolean: return value.as_bool();
    case PickleValue::Kind::integer: return value.as_integer();
    case PickleValue::Kind::real: return value.as_real();
    default: return value.to_string();
  }
}

class PickleSource final : public TensorSource {
 public:
  explicit PickleSource(FlatPickle flat) : others_(std::move(flat.others)) {
    for (auto& [name, value] : flat.tensors) {
      entries_.push_back(value.tensor_entry());
      entries_.back().name = name;
      tensors_.push_back(std::move(value));
    }
  }

  std::span<const TensorEntry> entries() const override { return entries_; }
  Metadata metadata() const override {
    Metadata result;
    for (const auto& [name, value] : others_) result.emplace(name, metadata_value(value));
    return result;
  }
  RawTensor elements(std::size_t index) const override { return PickleDocument::raw(tensors_[index]); }

 private:
  std::vector<TensorEntry> entries_;
  std::vector<PickleValue> tensors_;
  std::map<std::string, PickleValue, std::less<>> others_;
};

}  // namespace

std::unique_ptr<TensorSource> open_pytorch(os::FileBytes file, const OpenOptions& options) {
  const std::string path = file.path;
  PickleValue root = PickleDocument::root_value(parse_pytorch(std::move(file), options.verify_checksums));
  if (options.part == Part::weights) root = find_state_dict(std::move(root));
  return std::make_unique<PickleSource>(flatten(root, path));
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
