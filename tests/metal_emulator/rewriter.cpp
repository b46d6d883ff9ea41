#include "rewriter.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "include/metal_emulator/abi.h"
#include "lexer.h"

namespace emulator {
namespace {

/// Thrown to the one place that turns it into Rewritten::error.
struct TextError {
  std::size_t at;
  std::string message;
};

bool starts_with(std::string_view word, std::string_view start) {
  return word.substr(0, start.size()) == start;
}

bool changes_threads(std::string_view word) {
  return word == "threadgroup_barrier" || word == "simdgroup_barrier" || starts_with(word, "simd_");
}

/// What C++ has and Metal has not, or what only the emulator's compiler knows.
bool is_forbidden(std::string_view word) {
  static constexpr std::array kWords = {"double", "goto",     "new",          "delete", "throw",  "try",
                                        "catch",  "virtual",  "typeid",       "asm",    "printf", "dynamic_cast",
                                        "std",    "co_await", "thread_local", "wchar_t"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end() || starts_with(word, "__builtin_") ||
         starts_with(word, "emulator");
}

/// The built-in numbers, as members of Ids. Scalars are given as Size3 too.
const std::map<std::string_view, std::string_view>& numbers() {
  static const std::map<std::string_view, std::string_view> table = {
      {"thread_position_in_grid", "ids->thread_position_in_grid"},
      {"thread_position_in_threadgroup", "ids->thread_position_in_threadgroup"},
      {"threadgroup_position_in_grid", "ids->threadgroup_position_in_grid"},
      {"threads_per_threadgroup", "ids->threads_per_threadgroup"},
      {"threadgroups_per_grid", "ids->threadgroups_per_grid"},
      {"threads_per_grid", "ids->threads_per_grid"},
      {"thread_index_in_threadgroup", "{ids->thread_index_in_threadgroup}"},
      {"simdgroup_index_in_threadgroup", "{ids->simdgroup_index_in_threadgroup}"},
      {"thread_index_in_simdgroup", "{ids->thread_index_in_simdgroup}"},
      {"simdgroups_per_threadgroup", "{ids->simdgroups_per_threadgroup}"},
      {"threads_per_simdgroup", "{32}"},
      {"thread_execution_width", "{32}"},
  };
  return table;
}

class Rewriter {
 public:
  explicit Rewriter(const std::string& text) : text_(text), lexed_(lex(text)), tokens_(lexed_.tokens) {}

  Rewritten run(int version) {
    find_attributes();
    int depth = 0;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (in_attribute(i)) {
        if (attributes_.contains(i)) note_limit(attributes_.at(i));
        continue;
      }
      check_word(i);
      if (is(i, "kernel") && depth == 0) i = read_kernel(i);
      if (is(i, "{")) ++depth;
      if (is(i, "}")) --depth;
      if (is(i, "threadgroup") && begins_statement(i)) read_threadgroup_variable(i, depth);
    }
    for (const std::string_view pragma : lexed_.pragmas) {
      if (pragma.find("METAL fp contract(off)") != std::string_view::npos) result_.contracts = false;
    }
    // Unrolled loops compile four times as long, and run hardly faster on a processor.
    const std::string head = fmt::format(
        "#include <metal_stdlib>\n#define _Pragma(text)\n#define __METAL_VERSION__ {}\n#define double "
        "double_does_not_exist_in_Metal\n"
        "#line 1 \"program_source\"\n",
        version);
    result_.run = head + edited(run_edits_) + entries();
    result_.check = head + edited(check_edits_);
    return std::move(result_);
  }

 private:
  struct Edit {
    std::size_t begin, end;
    std::string text;
  };
  struct Attribute {
    std::size_t last = 0;  // token
    std::string_view name, argument;
  };

  bool is(std::size_t i, std::string_view text) const { return i < tokens_.size() && tokens_[i].text == text; }
  bool in_attribute(std::size_t i) const { return inside_[i]; }

  [[noreturn]] void fail(std::size_t token, std::string message) const {
    throw TextError{token < tokens_.size() ? tokens_[token].begin : text_.size(), std::move(message)};
  }

  void edit(std::size_t begin, std::size_t end, const std::string& run, const std::string& check) {
    run_edits_.push_back({begin, end, run});
    check_edits_.push_back({begin, end, check});
  }

  std::string edited(std::vector<Edit> edits) const {
    std::sort(edits.begin(), edits.end(), [](const Edit& x, const Edit& y) { return x.begin < y.begin; });
    std::string result;
    std::size_t at = 0;
    for (const Edit& e : edits) {
      result.append(text_, at, e.begin - at).append(e.text);
      at = e.end;
    }
    return result.append(text_, at).append("\n");
  }

  /// [[name(argument)]] is taken out of the text.
  void find_attributes() {
    inside_.assign(tokens_.size(), false);
    for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
      if (!is(i, "[") || !is(i + 1, "[") || tokens_[i].end != tokens_[i + 1].begin) continue;
      Attribute attribute;
      std::size_t last = i + 2;
      while (last + 1 < tokens_.size() && !(is(last, "]") && is(last + 1, "]"))) ++last;
      if (last + 1 >= tokens_.size()) fail(i, "expected ']]'");
      attribute.last = last + 1;
      attribute.name = tokens_[i + 2].text;
      if (is(i + 3, "(") && is(i + 5, ")")) attribute.argument = tokens_[i + 4].text;
      edit(tokens_[i].begin, tokens_[last + 1].end, "", "");
      std::fill(inside_.begin() + static_cast<std::ptrdiff_t>(i),
                inside_.begin() + static_cast<std::ptrdiff_t>(last + 2), true);
      attributes_[i] = attribute;
      i = last + 1;
    }
  }

  void check_word(std::size_t i) {
    if (!is_word(tokens_[i].text)) return;
    if (lexed_.reaches(tokens_[i], changes_threads)) result_.synchronises = true;
    if (lexed_.reaches(tokens_[i], is_forbidden)) {
      fail(i, fmt::format("'{}' is not supported in Metal", tokens_[i].text));
    }
    if (is(i, "long") && (is(i + 1, "long") || is(i + 1, "double"))) {
      fail(i, fmt::format("'long {}' is not supported in Metal", tokens_[i + 1].text));
    }
  }

  /// An attribute in front of the next kernel.
  void note_limit(const Attribute& attribute) {
    if (attribute.name == "max_total_threads_per_threadgroup") max_threads_ = number(attribute.argument);
  }

  /// -1 for what is no number.
  static int number(std::string_view digits) {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() ? value : -1;
  }

  bool has_alignment(std::size_t i) const { return i >= 5 && is(i - 4, "alignas") && is(i - 3, "(") && is(i - 1, ")"); }

  bool begins_statement(std::size_t i) const {
    if (has_alignment(i)) i -= 4;
    return i == 0 || is(i - 1, "{") || is(i - 1, "}") || is(i - 1, ";") || is(i - 1, "static");
  }

  /// From `kernel` to the opening brace, whose token comes back.
  std::size_t read_kernel(std::size_t i) {
    KernelInfo kernel;
    std::size_t open = i;
    while (open < tokens_.size() && !is(open, "(")) ++open;
    if (!is(i + 1, "void") || open != i + 3) fail(i, "a kernel is 'kernel void name(parameters)'");
    kernel.name = tokens_[i + 2].text;

    std::vector<std::size_t> parameter;
    std::size_t close = open + 1;
    for (int parentheses = 1; close < tokens_.size(); ++close) {
      if (!in_attribute(close)) {
        if (is(close, "(")) ++parentheses;
        if (is(close, ")") && --parentheses == 0) break;
        if (is(close, ",") && parentheses == 1) {
          read_parameter(kernel, parameter);
          parameter.clear();
          continue;
        }
      }
      parameter.push_back(close);
    }
    if (!parameter.empty()) read_parameter(kernel, parameter);
    if (!is(close + 1, "{")) fail(close, "expected the kernel's body");
    const std::string comma = kernel.parameters.empty() ? "" : ", ";
    edit(tokens_[close].begin, tokens_[close].begin, comma + "const ::emulator::Arguments* emulator_arguments", "");
    kernel.max_threads = std::exchange(max_threads_, kernel.max_threads);
    result_.kernels.push_back(std::move(kernel));
    last_variable_ = "0";
    return close + 1;
  }

  void read_parameter(KernelInfo& kernel, const std::vector<std::size_t>& tokens) {
    Parameter parameter;
    const Attribute* attribute = nullptr;
    bool threadgroup = false, device = false, pointer = false;
    for (const std::size_t i : tokens) {
      if (attributes_.contains(i)) {
        if (attribute != nullptr) fail(i, "a parameter has one attribute");
        attribute = &attributes_.at(i);
      }
      if (in_attribute(i)) continue;
      parameter.declaration += (parameter.declaration.empty() ? "" : " ") + std::string(tokens_[i].text);
      threadgroup = threadgroup || is(i, "threadgroup");
      device = device || is(i, "device") || is(i, "constant");
      parameter.constant = parameter.constant || (is(i, "const") && !pointer) || is(i, "constant");
      pointer = pointer || is(i, "*");
      parameter.reference = parameter.reference || is(i, "&");
    }
    if (tokens.empty()) return;
    if (attribute == nullptr) {
      fail(tokens[0],
           fmt::format("parameter '{}' of kernel '{}' needs an attribute", parameter.declaration, kernel.name));
    }
    if (attribute->name == "buffer" || attribute->name == "threadgroup") {
      parameter.kind = attribute->name == "buffer" ? Parameter::Kind::buffer : Parameter::Kind::threadgroup;
      parameter.index = number(attribute->argument);
      if (parameter.index < 0 || parameter.index >= kBufferSlots) {
        fail(tokens[0],
             fmt::format("'{}' attribute parameter is out of bounds: must be between 0 and 30", attribute->name));
      }
      if (!pointer && !parameter.reference) fail(tokens[0], "a buffer is a pointer or a reference");
      if (parameter.kind == Parameter::Kind::buffer ? !device || threadgroup : !threadgroup || device) {
        fail(tokens[0], fmt::format("parameter '{}' has the wrong address space", parameter.declaration));
      }
      for (const Parameter& other : kernel.parameters) {
        if (other.kind == parameter.kind && other.index == parameter.index) {
          fail(tokens[0], fmt::format("'{}' index {} is used twice", attribute->name, parameter.index));
        }
      }
    } else {
      parameter.kind = Parameter::Kind::number;
      parameter.number = attribute->name;
      if (!numbers().contains(attribute->name)) {
        fail(tokens[0], fmt::format("attribute '{}' is not known", attribute->name));
      }
    }
    kernel.parameters.push_back(std::move(parameter));
  }

  /// threadgroup T name[size]; becomes a reference into the threadgroup's memory. A pointer to such memory stays.
  void read_threadgroup_variable(std::size_t i, int depth) {
    // alignas(16) threadgroup T name[size]; is the order that C++ asks for.
    std::size_t first = i;
    std::string alignment;
    if (has_alignment(i)) {
      first = i - 4;
      alignment = fmt::format("alignas({}) ", tokens_[i - 2].text);
    }
    std::size_t stop = i + 1;
    const std::size_t type = stop;
    while (stop < tokens_.size() && !is(stop, ";") && !is(stop, "[") && !is(stop, "=") && !is(stop, ",")) {
      if (is(stop, "*") || is(stop, "&") || is(stop, "(")) return;
      ++stop;
    }
    std::size_t end = stop;
    while (end < tokens_.size() && !is(end, ";") && !is(end, "=") && !is(end, ",")) ++end;
    if (!is(end, ";")) fail(i, "a threadgroup variable is declared alone and without a value");
    if (depth != 1 || result_.kernels.empty()) {
      fail(i, "a threadgroup variable can only be declared in the outermost scope of a kernel");
    }
    if (stop < type + 2) fail(i, "a threadgroup variable has a type and a name");
    const std::string name(tokens_[stop - 1].text);
    const std::string_view base = slice(type, stop - 1), extents = slice(stop, end);
    const std::string run = fmt::format(
        "struct {4} emulator_of_{0} {{ {1} at{2}; }}; "
        "constexpr uint emulator_at_{0} = ::emulator::place({3}, alignof(emulator_of_{0})); "
        "constexpr uint emulator_end_{0} = emulator_at_{0} + sizeof(emulator_of_{0}); "
        "static ::emulator::Variable __attribute__((used, section(\"emulator_section_{5}\"))) emulator_variable_{0} "
        "= "
        "{{\"{0}\", emulator_at_{0}, sizeof(emulator_of_{0}), alignof(emulator_of_{0})}}; "
        "auto& {0} = reinterpret_cast<emulator_of_{0}*>(emulator_arguments->variables + emulator_at_{0})->at;",
        name, base, extents, last_variable_, alignment, result_.kernels.size() - 1);
    last_variable_ = "emulator_end_" + name;
    run_edits_.push_back({tokens_[first].begin, tokens_[end].end, run});
    check_edits_.push_back({tokens_[i].begin, tokens_[i].begin, "static "});
  }

  std::string_view slice(std::size_t first, std::size_t end) const {
    if (first == end) return {};
    return std::string_view(text_).substr(tokens_[first].begin, tokens_[end - 1].end - tokens_[first].begin);
  }

  /// What the emulator calls: a thread, or all threads of a threadgroup in the order of `places`.
  std::string entries() const {
    std::string text =
        "#line 1 \"entries\"\n#undef kernel\n#undef device\n#undef constant\n#undef thread\n#undef threadgroup\n"
        "extern \"C\" { const ::emulator::Runtime* emulator_runtime; }\n";
    for (std::size_t i = 0; i < result_.kernels.size(); ++i) {
      const std::string call = call_of(result_.kernels[i]);
      text += fmt::format(
          "extern \"C\" ::emulator::Variable __start_emulator_section_{0}[] __attribute__((weak, "
          "visibility(\"hidden\")));\n"
          "extern \"C\" ::emulator::Variable __stop_emulator_section_{0}[] __attribute__((weak, "
          "visibility(\"hidden\")));\n"
          "extern \"C\" void emulator_variables_{0}(const ::emulator::Variable** begin, const ::emulator::Variable** "
          "end) {{\n"
          "  *begin = __start_emulator_section_{0};\n  *end = __stop_emulator_section_{0};\n}}\n"
          "extern \"C\" void emulator_bytes_{0}(unsigned long* bytes) {{ ::emulator::referred_bytes({1}, bytes); }}\n",
          i, result_.kernels[i].name);
      text +=
          result_.synchronises
              ? fmt::format(
                    "extern \"C\" void emulator_thread_{}(const ::emulator::Arguments* arguments, "
                    "const ::emulator::Ids* ids) {{\n  {};\n}}\n",
                    i, call)
              : fmt::format(
                    "extern \"C\" void emulator_group_{}(const ::emulator::Arguments* arguments, ::emulator::Ids* ids, "
                    "const ::emulator::Place* places, unsigned count) {{\n"
                    "  const ::emulator::Size3 first = ids->thread_position_in_grid;\n"
                    "  for (unsigned i = 0; i < count; ++i) {{\n"
                    "    const ::emulator::Place place = places[i];\n"
                    "    ids->thread_position_in_threadgroup = {{place.x, place.y, place.z}};\n"
                    "    ids->thread_position_in_grid = {{first.x + place.x, first.y + place.y, first.z + place.z}};\n"
                    "    ids->thread_index_in_threadgroup = place.index;\n"
                    "    ids->simdgroup_index_in_threadgroup = place.index / 32;\n"
                    "    ids->thread_index_in_simdgroup = place.index % 32;\n"
                    "    {};\n  }}\n}}\n",
                    i, call);
    }
    return text;
  }

  static std::string call_of(const KernelInfo& kernel) {
    std::string call = kernel.name + "(";
    for (const Parameter& p : kernel.parameters) {
      switch (p.kind) {
        case Parameter::Kind::buffer:
          call +=
              fmt::format("::emulator::{}{{arguments->buffers[{}]}}, ", p.reference ? "Reference" : "Pointer", p.index);
          break;
        case Parameter::Kind::threadgroup:
          call += fmt::format("::emulator::Pointer{{arguments->threadgroup[{}]}}, ", p.index);
          break;
        case Parameter::Kind::number: call += fmt::format("::emulator::Number{{{}}}, ", numbers().at(p.number)); break;
      }
    }
    return call + "arguments)";
  }

  const std::string& text_;
  Lexed lexed_;
  const std::vector<Token>& tokens_;
  std::map<std::size_t, Attribute> attributes_;  // by their first token
  std::vector<bool> inside_;                     // an attribute
  std::vector<Edit> run_edits_, check_edits_;
  int max_threads_ = KernelInfo{}.max_threads;  // of the next kernel
  std::string last_variable_ = "0";             // where the kernel's last threadgroup variable ends
  Rewritten result_;
};

}  // namespace

Rewritten rewrite(const std::string& text, int version) {
  try {
    return Rewriter(text).run(version);
  } catch (const TextError& error) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(error.at), '\n');
    Rewritten result;
    result.error = fmt::format("program_source:{}: error: {}\n", line, error.message);
    return result;
  }
}

}  // namespace emulator
