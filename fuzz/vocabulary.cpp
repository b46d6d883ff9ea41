// .model files of SentencePiece and files of tiktoken, and what they do with a text: their own bytes, as far as they
// are UTF-8.
#include <lockstep/text/tokenizer.h>

#include "fuzz_target.h"
#include "text/unicode.h"

LOCKSTEP_FUZZ_TARGET(vocabulary) {
  using namespace lockstep;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto use = [&](const text::Tokenizer& tokenizer) {
    const std::string sample = text::encode_utf8(text::decode_utf8_lossy(bytes.substr(0, 64)));
    for (const std::string& words : {std::string("aab  a ab \xc3\xa9"), sample}) {
      const std::vector<std::int64_t> tokens = tokenizer.encode(words);
      for (const std::int64_t token : tokens) {
        if (token < 0 || token >= tokenizer.size()) __builtin_trap();  // what is encoded can be decoded
      }
      tokenizer.decode(tokens);
    }
  };
  fuzz::expect_error_or_success([&] { use(text::Tokenizer::from_sentencepiece(bytes)); });
  return fuzz::expect_error_or_success([&] {
    use(text::Tokenizer::from_tiktoken(bytes, R"(\s+|\S+)", {{"<e>", 300}}));
  });
}
