// What a text may look like: a grammar, written as llama.cpp's GBNF or as a JSON schema, that an answer is held to
// while it is drawn (lockstep/models/constraint.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <lockstep/export.h>
#include <lockstep/text/tokenizer.h>

namespace lockstep {
inline namespace v0 {
namespace text {

/// A value; copies share the rules.
class LOCKSTEP_API Grammar {
 public:
  /// Rules "name ::= ...", the text being what the rule root derives: texts in quotes, classes of characters, a point
  /// for any one, names, groups, alternatives, repetitions with a star, plus, question mark or counts in braces,
  /// comments from a number sign, as llama.cpp writes them; <[12]> is the special token 12, for which no text stands.
  /// `file` names it in messages. FormatError with the line for what is none, rules that are not there, left recursion,
  /// and beyond 200,000 symbols.
  static Grammar from_gbnf(std::string_view source, std::string_view file = "grammar");
  /// JSON texts that the schema allows, as gbnf_of_json_schema writes it.
  static Grammar from_json_schema(std::string_view schema);

  /// Whether the whole text is one of the grammar's. ValueError if that is too ambiguous to say.
  bool matches(std::string_view text) const;

  struct Rules;
  explicit Grammar(std::shared_ptr<const Rules> rules) : rules_(std::move(rules)) {}
  const std::shared_ptr<const Rules>& rules() const { return rules_; }

 private:
  std::shared_ptr<const Rules> rules_;
};

/// GBNF for the JSON texts that a schema allows. Of JSON Schema: type (one or a list), properties and required (members
/// come in the order of the properties; others only as additionalProperties allows, which is false where there are
/// properties), items, prefixItems, minItems, maxItems, minLength, maxLength, pattern (of ECMAScript with the flag
/// u, found anywhere unless anchored; no lookaround, word boundaries, backreferences), enum, const, anyOf, oneOf
/// (taken as anyOf), $ref within the schema; annotations are passed over. FormatError for a schema that is none, and
/// for every other keyword, by name.
LOCKSTEP_API std::string gbnf_of_json_schema(std::string_view schema);

/// The bytes that each token of a tokenizer adds to a text, as a tree. A value; copies share it.
class LOCKSTEP_API TokenTexts {
 public:
  explicit TokenTexts(const Tokenizer& tokenizer);

  struct Tree;
  const std::shared_ptr<const Tree>& tree() const { return tree_; }

 private:
  std::shared_ptr<const Tree> tree_;
};

}  // namespace text
}  // namespace v0
}  // namespace lockstep
