#include "backends/gpu/texts.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr std::string_view kStart = "FUNCTION ";

struct Function {
  std::string text;
  bool takes_doubles = false;  ///< or returns them
  bool has_doubles = false;
  std::vector<std::string> words;
};

bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::string without_comments(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "//") {
      i = text.find('\n', i);
      if (i == std::string_view::npos) break;
    } else if (text.substr(i, 2) == "/*") {
      i = text.find("*/", i) + 1;
      continue;
    }
    result += text[i];
  }
  return result;
}

/// Whole words of `text` replaced.
std::string replaced(std::string_view text, const std::unordered_map<std::string, std::string>& words) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && in_word(text[end])) ++end;
    if (end == i) {
      result += text[i++];
      continue;
    }
    const std::string word(text.substr(i, end - i));
    const auto found = words.find(word);
    result += found == words.end() ? word : found->second;
    i = end;
  }
  return result;
}

std::vector<std::string> list_of(std::string_view text) {
  std::vector<std::string> items(1);
  for (const char c : text) {
    if (c == ',') {
      items.emplace_back();
    } else if (c != ' ') {
      items.back() += c;
    }
  }
  return items;
}

/// The texts' macros of several lines make functions for several types: `#define NAME(WORD, ...) \ ...`, and its uses
/// at the beginnings of lines.
std::string expanded(const std::string& text) {
  constexpr std::string_view kDefine = "\n#define ";
  std::string result = text;
  for (std::size_t start = result.find(kDefine); start != std::string::npos; start = result.find(kDefine)) {
    const std::size_t name = start + kDefine.size();
    const std::size_t open = result.find('(', name);
    const std::size_t close = result.find(')', open);
    std::size_t end = close;
    do {
      end = result.find('\n', end + 1);
    } while (end != std::string::npos && result[result.find_last_not_of(' ', end - 1)] == '\\');
    LOCKSTEP_ASSERT(end != std::string::npos);
    const std::string macro = result.substr(name, open - name);
    const std::vector<std::string> parameters = list_of(std::string_view(result).substr(open + 1, close - open - 1));
    std::string body = result.substr(close + 1, end - close - 1);
    std::replace(body.begin(), body.end(), '\\', ' ');
    result.erase(start, end - start);
    const std::string use = "\n" + macro + "(";
    for (std::size_t at = result.find(use); at != std::string::npos; at = result.find(use)) {
      const std::size_t stop = result.find(')', at);
      const std::vector<std::string> arguments =
          list_of(std::string_view(result).substr(at + use.size(), stop - at - use.size()));
      std::unordered_map<std::string, std::string> words;
      for (std::size_t i = 0; i < parameters.size(); ++i) words[parameters[i]] = arguments.at(i);
      result.replace(at, stop + 1 - at, "\n" + replaced(body, words));
    }
  }
  return result;
}

std::vector<std::string> words_of(std::string_view text) {
  std::set<std::string> words;
  // Macros that may stand for functions.
  constexpr std::pair<std::string_view, const char*> kMacros[] = {
      {"CANONICAL_F32(", "canonical"},
      {"FLUSHED_F32(", "canonical"},
      {"FLOAT_KEY(", "max_key"},
      {"MIN_KEY(", "min_key"},
      {"LARGER(", "larger"},
      {"SMALLER(", "smaller"},
      {"ROUND_BF16(", "cast_bf16"},
      {"ENCODE_BF16(", "encode_bf16"},
      {"ROUND_F16(", "cast_f16"},
      {"ENCODE_F16(", "encode_f16"},
      {"DECODE_F16(", "decode_f16"},
      {"STORE4_BF16(", "encode_bf16"},
      {"STORE8_BF16(", "encode_bf16"},
      {"STORE4_F16(", "encode_f16"},
      {"STORE8_F16(", "encode_f16"},
      {"SURE_BF16(", "encode_bf16"},
      {"SURE_F16(", "encode_f16"},
      {"NEAREST_BF16(", "cast_bf16"},
      {"GELU_TO_BF16(", "ls_gelu_to_bf16"},
      {"GELU_TO_BF16(", "gelu_magnitude"},
      {"GELU_TO_BF16(", "gelu_radicand"},
      {"GELU_TO_BF16(", "gelu_exponent"},
      {"GELU_TO_BF16(", "gelu_to_bf16_by"},
      {"GELU_TO_F16(", "ls_gelu"},
      {"GELU_TO_F16(", "gelu_divisor"},
      {"GELU_TO_F16(", "gelu_exponent"},
      {"GELU_TO_F16(", "gelu_to_f16_by"},
  };
  for (const auto& [macro, function] : kMacros) {
    if (text.find(macro) != std::string_view::npos) words.insert(function);
  }
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && in_word(text[end])) ++end;
    if (end > i && std::isdigit(static_cast<unsigned char>(text[i])) == 0) words.emplace(text.substr(i, end - i));
    i = end + (end == i ? 1 : 0);
  }
  return {words.begin(), words.end()};
}

bool mentions_double(std::string_view text) {
  const std::vector<std::string> words = words_of(text);
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return word == "double" || word == "DOUBLE"; });
}

class Library {
 public:
  Library() {
    for (const std::string_view text : embedded_texts()) add(expanded(without_comments(text)));
  }

  std::string needed_by(std::string_view body) const {
    std::set<std::size_t> needed;
    std::vector<std::string> work = words_of(body);
    bool doubles = mentions_double(body);
    std::set<std::string> seen(work.begin(), work.end());
    std::vector<std::size_t> waiting;  // overloads for doubles, taken once something computes in double
    const auto take = [&](std::size_t f) {
      if (!needed.insert(f).second) return;
      doubles = doubles || functions_[f].has_doubles;
      for (const std::string& word : functions_[f].words) {
        if (seen.insert(word).second) work.push_back(word);
      }
    };
    while (true) {
      while (!work.empty()) {
        const auto found = by_name_.find(work.back());
        work.pop_back();
        if (found == by_name_.end()) continue;
        for (const std::size_t f : found->second) {
          if (functions_[f].takes_doubles) {
            waiting.push_back(f);
          } else {
            take(f);
          }
        }
      }
      if (!doubles || waiting.empty()) break;
      for (const std::size_t f : std::exchange(waiting, {})) take(f);
    }
    std::string result;
    for (const std::size_t f : needed) result += functions_[f].text;
    return result;
  }

 private:
  void add(const std::string& text) {
    for (std::size_t start = text.find(kStart); start != std::string::npos; start = text.find(kStart, start)) {
      const std::size_t open = text.find('{', start);
      LOCKSTEP_ASSERT(open != std::string::npos);
      std::size_t end = open + 1;
      for (int depth = 1; depth > 0; ++end) {
        LOCKSTEP_ASSERT(end < text.size());
        depth += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
      }
      Function function;
      function.text = text.substr(start, end - start) + "\n";
      const std::size_t parameters = function.text.find('(');
      std::size_t name = parameters;
      while (in_word(function.text[name - 1])) --name;
      const std::string_view head = std::string_view(function.text).substr(0, open - start);
      function.takes_doubles = mentions_double(head);
      function.has_doubles = mentions_double(function.text);
      function.words = words_of(std::string_view(function.text).substr(parameters));
      by_name_[function.text.substr(name, parameters - name)].push_back(functions_.size());
      functions_.push_back(std::move(function));
      start = end;
    }
  }

  std::vector<Function> functions_;
  std::unordered_map<std::string, std::vector<std::size_t>> by_name_;
};

}  // namespace

std::string needed_functions(std::string_view body) {
  static const Library& library = *new Library;
  return library.needed_by(body);
}

std::string needed_functions(const std::string& body, std::span<const Substitute> substitutes) {
  std::string needed = needed_functions(body);
  std::string names;
  for (std::size_t taken = 0; taken <= substitutes.size(); ++taken) {  // functions may use other macros
    std::string used;
    for (const Substitute& substitute : substitutes) {
      if ((needed + body).find(substitute.macro + "(") != std::string::npos) used += " " + substitute.function;
    }
    if (used == names) break;
    names = used;
    needed = needed_functions(body + names);
  }
  return needed;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
