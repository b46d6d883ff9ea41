// A grammar, as GBNF or as a JSON schema, and the texts that it allows.
#include <lockstep/text/grammar.h>

#include "fuzz_target.h"

LOCKSTEP_FUZZ_TARGET(grammar) {
  using namespace lockstep;
  return fuzz::expect_error_or_success([&] {
    const std::string_view source(reinterpret_cast<const char*>(data), size);
    const bool schema = source.starts_with("{");
    const text::Grammar grammar = schema ? text::Grammar::from_json_schema(source) : text::Grammar::from_gbnf(source);
    for (const std::string_view text : {"", "a", "[[1,\"\xc3\xa9\"],{\"a\":null}]", "((x))", "\"ab\\n7\""})
      grammar.matches(text);
  });
}
