#include "cli/state_hash.h"

#include <span>
#include <string>

#include "cli/json.h"
#include "core/hash.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

std::uint64_t hash_of(const nn::StateDict& state) {
  std::string text;
  for (const auto& [name, tensor] : state) text += name + " " + hex(tensor.hash()) + "\n";
  return hash_bytes(std::as_bytes(std::span(text)));
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
