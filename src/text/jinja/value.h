// Values of chat templates, with the semantics of Python: truth, equality, how they print, and as JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/jinja/failure.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {

/// Lists in lists.
inline constexpr int kDeepest = 100;

class Value;
using Json = nlohmann::ordered_json;

struct Undefined {
  std::string name;
};
struct None {};
struct List {
  std::vector<Value> items;
  bool tuple = false;
  bool is_group = false;  ///< Of groupby: its two elements are .grouper and .list.
  int depth = 1;
};
/// In the order of insertion. The object of namespace() is one that may be changed.
struct Function;
struct Dict {
  std::vector<std::pair<Value, Value>> items;  ///< keys are strings, numbers, bools or None
  bool is_namespace = false;
  std::shared_ptr<Function> call;  ///< Of a recursive loop's facts.
  int depth = 1;

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);
};
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // Not inline, as those of Value are not: they stand in many places.
  Arguments();
  Arguments(const Arguments& other);
  Arguments(Arguments&& other) noexcept;
  Arguments& operator=(const Arguments&) = delete;
  ~Arguments();
};
struct Function {
  std::string name;
  std::function<Value(Arguments)> call;
};

class Value {
 public:
  Value();  ///< undefined
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();
  Value(Undefined undefined);
  Value(None none) : data_(none) {}
  Value(bool value) : data_(value) {}
  Value(std::int64_t value) : data_(value) {}
  Value(int value) : data_(std::int64_t{value}) {}
  Value(std::size_t value) : data_(static_cast<std::int64_t>(value)) {}
  Value(double value) : data_(value) {}
  Value(std::string value);
  Value(const char* value);
  // FormatError where values are nested more than kDeepest deep: what recurses over them must end.
  Value(List list);
  Value(Dict dict);
  Value(std::vector<Value> items);
  Value(Function function);

  template <typename T> const T* get() const { return std::get_if<T>(&data_); }
  bool is_undefined() const { return get<Undefined>() != nullptr; }
  bool is_none() const { return get<None>() != nullptr; }
  /// A string that is HTML already: + escapes what is added to it, as Python's Markup does.
  static Value markup(std::string text) {
    Value value(std::move(text));
    value.is_markup_ = true;
    return value;
  }
  bool is_markup() const { return is_markup_; }
  bool is_string() const { return get<std::string>() != nullptr; }
  /// Null for other values.
  const std::string* string() const { return get<std::string>(); }
  const List* list() const { return pointee<List>(); }
  Dict* dict() const { return pointee<Dict>(); }
  const Function* function() const { return pointee<Function>(); }
  /// An integer, or a bool as one.
  const std::int64_t* integer() const { return get<std::int64_t>(); }
  bool is_number() const { return get<std::int64_t>() || get<double>() || get<bool>(); }
  double number() const;
  int depth() const { return list() ? list()->depth : dict() ? dict()->depth : 0; }

  bool truth() const;
  /// As {{ value }} prints it, and as it stands inside of a list.
  std::string to_string() const;
  std::string repr() const;
  /// "str", "list", ...: for messages.
  std::string_view type_name() const;

 private:
  void spend_copy() const;
  template <typename T> T* pointee() const {
    const auto* pointer = std::get_if<std::shared_ptr<T>>(&data_);
    return pointer ? pointer->get() : nullptr;
  }
  std::variant<Undefined, None, bool, std::int64_t, double, std::string, std::shared_ptr<List>, std::shared_ptr<Dict>,
               std::shared_ptr<Function>>
      data_;
  bool is_markup_ = false;
};

bool equal(const Value& a, const Value& b);
/// -1, 0 or 1; fails for values without an order.
int compare(const Value& a, const Value& b);
bool contains(const Value& container, const Value& item);
/// What a loop runs over: elements, keys, characters. Fails for other values.
std::vector<Value> elements(const Value& value);

Value from_json(const Json& json, int depth = 0);
struct JsonStyle {
  int indent = -1;
  bool ascii = false;
  bool sorted = false;
  std::string item_separator, key_separator;
};
/// Numbers below `count` in ascending order; equal ones keep theirs.
std::vector<std::size_t> sorted_places(std::size_t count, const std::function<bool(std::size_t, std::size_t)>& before);
/// As Python's json.dumps writes it.
std::string to_json(const Value& value, const JsonStyle& style);

/// The characters of UTF-8, each a string; broken bytes are characters.
std::vector<std::string> characters(std::string_view text);

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
