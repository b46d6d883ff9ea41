// What somebody may have meant who typed a word that is none of those that are known.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {
inline namespace v0 {
namespace cli {

/// The candidate that differs least from the word, by letters that are missing, added, replaced or swapped with their
/// neighbour (Damerau's distance); empty where none is near: a third of the letters may be wrong.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// "; did you mean train?", or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
