// SentencePiece's .model files: a message of protocol buffers, as sentencepiece_model.proto numbers its fields.
#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "io/onnx/wire.h"
#include "text/end_tokens.h"
#include "text/sentence_piece.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

using io::onnx::Field;
using io::onnx::MessageReader;

constexpr std::size_t kMaxPieces = std::size_t{1} << 24;

struct Pieces {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<TokenKind> kinds;
};

struct Trainer {
  std::int64_t model = 1;  // unigram, 2: byte pair encoding
  bool suffix = false;
  bool byte_fallback = false;
  std::string first = "<s>";
  std::string end = "</s>";
};

std::string utf8(MessageReader& reader, std::string_view text) {
  if (!decode_utf8(text)) reader.fail("has a text that is not UTF-8");
  return std::string(text);
}

void read_piece(MessageReader reader, Pieces& pieces) {
  std::string text;
  float score = 0;
  std::int64_t kind = 1;
  for (Field field; reader.next(field);) {
    switch (field.number) {
      case 1: text = utf8(reader, reader.text(field)); break;
      case 2: score = reader.number(field); break;
      case 3: kind = reader.integer(field); break;
      default: break;
    }
  }
  if (text.empty()) reader.fail("is a piece without a text");
  if (kind < 1 || kind > static_cast<std::int64_t>(TokenKind::byte)) reader.fail(fmt::format("is of type {}", kind));
  if (pieces.texts.size() == kMaxPieces) reader.fail("is a piece too many");
  pieces.texts.push_back(std::move(text));
  pieces.scores.push_back(score);
  pieces.kinds.push_back(static_cast<TokenKind>(kind));
}

Trainer read_trainer(MessageReader reader) {
  Trainer trainer;
  for (Field field; reader.next(field);) {
    switch (field.number) {
      case 3: trainer.model = reader.integer(field); break;
      case 24: trainer.suffix = reader.integer(field) != 0; break;
      case 35: trainer.byte_fallback = reader.integer(field) != 0; break;
      case 46: trainer.first = utf8(reader, reader.text(field)); break;
      case 47: trainer.end = utf8(reader, reader.text(field)); break;
      default: break;
    }
  }
  if (trainer.model != 1 && trainer.model != 2) {
    reader.fail(fmt::format("has the model type {}, which is not supported (1: unigram, 2: BPE)", trainer.model));
  }
  return trainer;
}

void read_normalizer_spec(const std::string& file, MessageReader reader, SentencePieceSpec& spec) {
  spec.remove_extra_spaces = true;
  for (Field field; reader.next(field);) {
    switch (field.number) {
      case 2: spec.replacements = CharsMap(file, reader.text(field)); break;
      case 3: spec.prefix = reader.integer(field) != 0; break;
      case 4: spec.remove_extra_spaces = reader.integer(field) != 0; break;
      case 5: spec.mark_spaces = reader.integer(field) != 0; break;
      default: break;
    }
  }
}

void refuse_denormalizer(MessageReader reader) {
  for (Field field; reader.next(field);) {
    if (field.number == 2 && !reader.message(field).empty()) reader.fail("replaces texts, which is not supported");
  }
}

}  // namespace

std::shared_ptr<Tokenizer::Parts> parts_of_model_file(const std::string& file, std::string_view bytes) {
  Pieces pieces;
  Trainer trainer;
  SentencePieceSpec spec{.remove_extra_spaces = true};
  const std::span<const std::byte> all = std::as_bytes(std::span(bytes.data(), bytes.size()));
  MessageReader reader(file, {all, 0}, "the model");
  for (Field field; reader.next(field);) {
    switch (field.number) {
      case 1: read_piece({file, reader.repeated_message(field), "a piece"}, pieces); break;
      case 2: trainer = read_trainer({file, reader.message(field), "trainer_spec"}); break;
      case 3: read_normalizer_spec(file, {file, reader.message(field), "normalizer_spec"}, spec); break;
      case 5: refuse_denormalizer({file, reader.message(field), "denormalizer_spec"}); break;
      default: break;
    }
  }
  auto parts = std::make_shared<Tokenizer::Parts>();
  const std::size_t count = pieces.texts.size();
  if (std::count(pieces.kinds.begin(), pieces.kinds.end(), TokenKind::unknown) != 1) {
    throw FormatError(fmt::format("{}: {} pieces, of which not exactly one is the unknown one", file, count));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<std::int64_t>(i);
    if (parts->vocabulary.find(pieces.texts[i])) {
      throw FormatError(fmt::format("{}: the piece {} is there twice", file, in_quotes(pieces.texts[i])));
    }
    parts->vocabulary.add(file, pieces.texts[i], id, count);
    const bool control = pieces.kinds[i] == TokenKind::control;
    parts->special.push_back(control || pieces.kinds[i] == TokenKind::unknown);
    if (control) parts->raw.add({.content = *decode_utf8(pieces.texts[i]), .id = id, .special = true});
  }
  parts->first = parts->vocabulary.find(trainer.first);
  parts->end = parts->vocabulary.find(trainer.end);
  add_known_ends(*parts);
  spec.unigram = trainer.model == 1;
  spec.suffix = trainer.suffix;
  spec.byte_fallback = trainer.byte_fallback;
  spec.scores = std::move(pieces.scores);
  spec.kinds = std::move(pieces.kinds);
  use_sentence_piece(file, std::move(spec), *parts);
  return parts;
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
