#include <span>
#include <string>

#include <fmt/format.h>

#include <lockstep/nn/module.h>

#include "core/hash.h"

namespace lockstep {
inline namespace v0 {
namespace nn {

std::uint64_t state_hash(const StateDict& state) {
  std::string text;
  for (const auto& [name, tensor] : StateDict::Map(state)) text += fmt::format("{} {:016x}\n", name, tensor.hash());
  return hash_bytes(std::as_bytes(std::span(text)));
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
