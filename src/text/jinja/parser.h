// Chat templates as syntax trees.
#pragma once

#include <string_view>

#include "text/jinja/syntax.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {

/// FormatError with the line for what is no template, or nested more than kMaxDepth deep.
Block parse(std::string_view source);

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
