// Texts of JSON from others, looked at before they are parsed: nlohmann's parser has no bounds, its values copy and
// print themselves by recursion, and an ordered object compares each of its names with all before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {
inline namespace v0 {

/// "nests too deep": more than `depth` objects and lists inside each other; "has too many values": more than `values`,
/// where the n-th member of an object counts for n; null where a text has neither. It need not be JSON.
const char* json_excess(std::string_view text, std::size_t depth, std::uint64_t values = UINT64_MAX);

}  // namespace v0
}  // namespace lockstep
