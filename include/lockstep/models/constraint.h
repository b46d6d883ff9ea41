// An answer that is held to a grammar while it is drawn.
#pragma once

#include <memory>
#include <vector>

#include <lockstep/models/generate.h>
#include <lockstep/text/grammar.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// Tokens may come that go on with a text of the grammar, `end_tokens` where it is whole; special tokens never. For one
/// answer.
LOCKSTEP_API std::shared_ptr<TokenConstraint> constrain(const text::Grammar& grammar, const text::TokenTexts& texts,
                                                        std::vector<std::int64_t> end_tokens);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
