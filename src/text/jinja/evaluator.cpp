#include "text/jinja/evaluator.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "text/jinja/numbers.h"
#include "text/jinja/strings.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {
namespace {

using Kind = Expression::Kind;

// Names that a block sets are those of its scope; loops, macros and the template have one each.
struct Scope {
  std::map<std::string, Value, std::less<>> names;
  const Scope* outer = nullptr;

  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
      if (const auto found = scope->names.find(name); found != scope->names.end()) return &found->second;
    }
    return nullptr;
  }
};

enum class Flow { on, stop, next };

// Blocks and expressions that run inside of each other, through calls of macros, too.
constexpr int kMaxNesting = 800;

// Functions and namespaces inside of a value.
bool holds_reference(const Value& value) {
  spend(16);
  if (const List* list = value.list()) return std::any_of(list->items.begin(), list->items.end(), holds_reference);
  if (const Dict* dict = value.dict()) {
    return dict->is_namespace || dict->call ||
           std::any_of(dict->items.begin(), dict->items.end(),
                       [](const auto& item) { return holds_reference(item.second); });
  }
  return value.function() != nullptr;
}

class Evaluator {
 public:
  std::string run(const Block& block, const Dict& variables) try {
    Scope globals{.names = global_functions()};
    Scope given{.outer = &globals};
    for (const auto& [name, value] : variables.items) given.names.insert_or_assign(name.to_string(), value);
    Scope scope{.outer = &given};
    std::string output;
    statements(block, scope, output);
    return output;
  } catch (const FormatError& error) {
    const std::string_view what = error.what();
    fail(fmt::format("line {}: {}", line_, what.substr(what.starts_with(kFailed) ? kFailed.size() : 0)));
  }

 private:
  struct Deeper {
    explicit Deeper(int& depth) : depth_(depth) {
      if (++depth_ <= kMaxNesting) return;
      --depth_;
      fail("what runs is nested too deeply");
    }
    ~Deeper() { --depth_; }
    int& depth_;
  };

  void print(std::string_view text, std::string& output) {
    budget_.text(text.size());
    output += text;
  }

  // --- statements ----------------------------------------------------------------------------------------------------

  Flow statements(const Block& block, Scope& scope, std::string& output) {
    const Deeper deeper(depth_);
    const int outer = line_;  // where an error would be, which leaves line_ as it is
    Flow flow = Flow::on;
    for (std::size_t i = 0; i < block.size() && flow == Flow::on; ++i) {
      line_ = block[i].line;
      flow = run_one(block[i], scope, output);
    }
    line_ = outer;
    return flow;
  }

  Flow run_one(const Statement& statement, Scope& scope, std::string& output) {
    budget_.step();
    switch (statement.kind) {
      case Statement::Kind::text: print(statement.text, output); break;
      case Statement::Kind::print: print(value_of(*statement.value, scope).to_string(), output); break;
      case Statement::Kind::branch: return branch(statement, scope, output);
      case Statement::Kind::loop: loop(statement, scope, output); break;
      case Statement::Kind::set: assign(statement.targets, value_of(*statement.value, scope), scope); break;
      case Statement::Kind::set_block: {
        std::string text = printed(statement.blocks[0], scope);
        assign(statement.targets, statement.value ? filtered(*statement.value, std::move(text), scope) : Value(std::move(text)), scope);
        break;
      }
      case Statement::Kind::macro: scope.names.insert_or_assign(statement.text, macro(statement, scope)); break;
      case Statement::Kind::call: {
        Arguments arguments;
        const Value callee = call_parts(*statement.value, scope, arguments);
        arguments.named.emplace_back("caller", macro(statement, scope));
        print(called(callee, std::move(arguments)).to_string(), output);
        break;
      }
      case Statement::Kind::filter:
        print(filtered(*statement.value, printed(statement.blocks[0], scope), scope).to_string(), output);
        break;
      case Statement::Kind::group: {
        Scope inner{.outer = &scope};
        return statements(statement.blocks[0], inner, output);
      }
      case Statement::Kind::with: {
        Scope inner{.outer = &scope};
        for (const Statement& one : statement.blocks[1]) assign(one.targets, value_of(*one.value, scope), inner);
        return statements(statement.blocks[0], inner, output);
      }
      case Statement::Kind::stop: return Flow::stop;
      case Statement::Kind::next: return Flow::next;
    }
    return Flow::on;
  }

  std::string printed(const Block& block, Scope& scope) {
    std::string text;
    Scope inner{.outer = &scope};
    statements(block, inner, text);
    return text;
  }

  Flow branch(const Statement& statement, Scope& scope, std::string& output) {
    for (std::size_t i = 0; i < statement.conditions.size(); ++i) {
      if (value_of(*statement.conditions[i], scope).truth()) return statements(statement.blocks[i], scope, output);
    }
    if (statement.blocks.size() > statement.conditions.size()) return statements(statement.blocks.back(), scope, output);
    return Flow::on;
  }

  static void assign_attribute(const std::string& name, std::size_t point, const Value& value, Scope& scope) {
    const Value* target = scope.find(std::string_view(name).substr(0, point));
    if (target == nullptr || !target->dict() || !target->dict()->is_namespace) {
      fail(fmt::format("{} cannot be set: that is done for namespaces only", name));
    }
    // It may live longer than the scope that a macro belongs to, and namespaces in a ring would never go.
    if (holds_reference(value)) fail(fmt::format("{} cannot be a function or namespace", name));
    target->dict()->set(name.substr(point + 1), value);
  }

  // Names, and others in brackets: "a", "(", "b", "c", ")".
  void assign(const std::vector<std::string>& targets, const Value& value, Scope& scope) {
    if (targets.size() == 1) {
      const std::size_t point = targets.front().find('.');
      if (point != std::string::npos) return assign_attribute(targets.front(), point, value, scope);
      scope.names.insert_or_assign(targets.front(), value);
      return;
    }
    std::vector<std::vector<std::string>> each;
    int depth = 0;
    for (const std::string& target : targets) {
      if (depth == 0) each.emplace_back();
      depth += target == "(" ? 1 : target == ")" ? -1 : 0;
      const bool outer = (target == "(" && depth == 1) || (target == ")" && depth == 0);
      if (!outer) each.back().push_back(target);
    }
    const std::vector<Value> parts = elements(value);
    if (parts.size() != each.size()) {
      fail(fmt::format("{} values cannot be unpacked into {} names", parts.size(), each.size()));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) assign(each[i], parts[i], scope);
  }

  void loop(const Statement& statement, Scope& scope, std::string& output) {
    loop_over(statement, value_of(*statement.value, scope), 1, scope, output);
  }

  // Of a recursive loop `loop(value)` runs it again over the value, one level deeper.
  void loop_over(const Statement& statement, const Value& value, std::size_t level, Scope& scope, std::string& output) {
    std::vector<Value> items = elements(value);
    budget_.step(items.size());
    if (statement.condition) {
      std::vector<Value> kept;
      for (Value& item : items) {
        Scope inner{.outer = &scope};
        assign(statement.targets, item, inner);
        if (value_of(*statement.condition, inner).truth()) kept.push_back(std::move(item));
      }
      items = std::move(kept);
    }
    const std::size_t count = items.size();
    const auto changes = std::make_shared<Value>();
    std::shared_ptr<Function> again;
    if (statement.recursive) {
      again = std::make_shared<Function>(Function{"loop", [this, &statement, &scope, level](Arguments arguments) {
                                                    std::string text;
                                                    loop_over(statement, argument(arguments, 0, "iterable"), level + 1,
                                                              scope, text);
                                                    return Value(std::move(text));
                                                  }});
    }
    for (std::size_t i = 0; i < count; ++i) {
      Scope inner{.outer = &scope};
      Dict facts = loop_facts(items, i, changes);
      facts.items.emplace_back("depth", level);
      facts.items.emplace_back("depth0", level - 1);
      facts.call = again;
      inner.names.insert_or_assign("loop", std::move(facts));
      assign(statement.targets, items[i], inner);
      if (statements(statement.blocks[0], inner, output) == Flow::stop) break;
    }
    if (count == 0 && statement.blocks.size() > 1) statements(statement.blocks[1], scope, output);
  }

  static Dict loop_facts(const std::vector<Value>& items, std::size_t i, const std::shared_ptr<Value>& changes) {
    Dict facts;
    const std::size_t count = items.size();
    facts.items = {{"index", i + 1},         {"index0", i},           {"revindex", count - i},
                   {"revindex0", count - i - 1}, {"first", i == 0},   {"last", i + 1 == count},
                   {"length", count}};
    facts.items.emplace_back("previtem", i > 0 ? items[i - 1] : Value(Undefined{"previtem"}));
    facts.items.emplace_back("nextitem", i + 1 < count ? items[i + 1] : Value(Undefined{"nextitem"}));
    facts.items.emplace_back("cycle", Function{"cycle", [i](Arguments arguments) {
                                                 if (arguments.positional.empty()) fail("cycle: nothing to choose from");
                                                 return arguments.positional[i % arguments.positional.size()];
                                               }});
    facts.items.emplace_back("changed", Function{"changed", [changes](Arguments arguments) -> Value {
                                                   Value now =
                                                       List{.items = std::move(arguments.positional), .tuple = true};
                                                   if (!changes->is_undefined() && equal(*changes, now)) return false;
                                                   *changes = std::move(now);
                                                   return true;
                                                 }});
    return facts;
  }

  // The scope of a macro is where it stands; it outlives every call, since macros cannot leave it.
  Value macro(const Statement& statement, Scope& scope) {
    return Function{statement.text.empty() ? "caller" : statement.text, [this, &statement, &scope](Arguments arguments) {
      Scope inner{.outer = &scope};
      const auto& parameters = statement.parameters;
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const auto& [name, fallback] = parameters[i];
        const auto named = std::find_if(arguments.named.begin(), arguments.named.end(), [&, wanted = std::string_view(name)](const auto& a) { return a.first == wanted; });
        Value value = Undefined{name};
        if (i < arguments.positional.size()) {
          value = arguments.positional[i];
        } else if (named != arguments.named.end()) {
          value = named->second;
          arguments.named.erase(named);
        } else if (fallback) {
          value = value_of(*fallback, inner);
        }
        inner.names.insert_or_assign(name, std::move(value));
      }
      std::vector<Value> rest;
      for (std::size_t i = parameters.size(); i < arguments.positional.size(); ++i) rest.push_back(arguments.positional[i]);
      inner.names.insert_or_assign("varargs", List{std::move(rest), true});
      Dict others;
      for (auto& [name, value] : arguments.named) {
        if (name == "caller") {
          inner.names.insert_or_assign("caller", std::move(value));
        } else {
          others.set(name, std::move(value));
        }
      }
      inner.names.insert_or_assign("kwargs", std::move(others));
      std::string text;
      statements(statement.blocks[0], inner, text);
      return Value(std::move(text));
    }};
  }

  // --- expressions ---------------------------------------------------------------------------------------------------

  Value value_of(const Expression& e, Scope& scope) {
    const Deeper deeper(depth_);
    budget_.step();
    const auto part = [&](std::size_t i) { return value_of(*e.parts[i], scope); };
    switch (e.kind) {
      case Kind::constant: return e.constant;
      case Kind::name: {
        const Value* found = scope.find(e.text);
        return found ? *found : Value(Undefined{e.text});
      }
      case Kind::list:
      case Kind::tuple: {
        List list{.tuple = e.kind == Kind::tuple};
        for (std::size_t i = 0; i < e.parts.size(); ++i) list.items.push_back(part(i));
        return list;
      }
      case Kind::dict: {
        Dict dict;
        for (std::size_t i = 0; i < e.parts.size(); i += 2) dict.set(part(i), part(i + 1));
        return dict;
      }
      case Kind::attribute: return attribute(part(0), e.text);
      case Kind::item: return item(part(0), part(1));
      case Kind::slice: return slice(e, scope);
      case Kind::call: {
        Arguments arguments;
        const Value callee = call_parts(e, scope, arguments);
        return called(callee, std::move(arguments));
      }
      case Kind::filter: return filtered(e, std::nullopt, scope);
      case Kind::test: return test(e, scope);
      case Kind::negative:
      case Kind::positive: {
        const Value value = part(0);
        if (!value.is_number()) fail(fmt::format("+ and - need a number, not {}", value.type_name()));
        if (e.kind == Kind::positive) return value.get<bool>() ? Value(to_integer(value, "+")) : value;
        if (const std::int64_t* number = value.integer(); number && *number != INT64_MIN) return -*number;
        return value.get<bool>() ? Value(static_cast<std::int64_t>(-value.number())) : Value(-value.number());
      }
      case Kind::invert: return !part(0).truth();
      case Kind::binary: return binary(e.text, part(0), part(1));
      case Kind::concat: {
        std::string text;
        for (std::size_t i = 0; i < e.parts.size(); ++i) text += part(i).to_string();
        budget_.text(text.size());
        return text;
      }
      case Kind::compare: return compared(e, scope);
      case Kind::both: {
        Value left = part(0);
        return left.truth() ? part(1) : left;
      }
      case Kind::either: {
        Value left = part(0);
        return left.truth() ? left : part(1);
      }
      case Kind::choice:
        if (part(1).truth()) return part(0);
        return e.parts[2] ? part(2) : Value();
    }
    return {};
  }

  Value attribute(const Value& object, const std::string& name) {
    if (object.is_undefined()) {
      const std::string& what = object.get<Undefined>()->name;
      fail(fmt::format("'{}' is undefined, and has no '{}'", what, name));
    }
    if (Value method = find_method(context_, object, name); !method.is_undefined()) return method;
    if (const Dict* dict = object.dict()) {
      if (const Value* found = dict->find(std::string_view(name))) return *found;
    }
    if (object.list() && object.list()->is_group && (name == "grouper" || name == "list")) {
      return object.list()->items[name == "list" ? 1 : 0];
    }
    return Undefined{name};
  }

  Value item(const Value& object, const Value& key) {
    if (object.is_undefined()) fail(fmt::format("'{}' is undefined, and has no items", object.get<Undefined>()->name));
    if (const Dict* dict = object.dict()) {
      if (const Value* found = dict->find(key)) return *found;
      Value method = key.string() ? find_method(context_, object, *key.string()) : Value();
      return method.is_undefined() ? Value(Undefined{key.to_string()}) : method;
    }
    const std::int64_t* index = key.integer();
    if (index == nullptr) return key.string() ? attribute(object, *key.string()) : Value(Undefined{key.to_string()});
    if (!object.list() && !object.string()) return Undefined{key.to_string()};
    const std::vector<Value> characters = object.list() ? std::vector<Value>() : elements(object);
    const std::vector<Value>& items = object.list() ? object.list()->items : characters;
    budget_.step(1 + characters.size());
    const auto size = static_cast<std::int64_t>(items.size());
    const std::int64_t at = *index < 0 ? *index + size : *index;
    return at >= 0 && at < size ? items[static_cast<std::size_t>(at)] : Value(Undefined{key.to_string()});
  }

  Value slice(const Expression& e, Scope& scope) {
    const Value object = value_of(*e.parts[0], scope);
    if (!object.list() && !object.string()) fail(fmt::format("{} cannot be sliced", object.type_name()));
    const std::vector<Value> items = elements(object);
    budget_.step(items.size());
    const auto bound = [&](std::size_t i) -> std::optional<std::int64_t> {
      if (!e.parts[i]) return std::nullopt;
      const Value value = value_of(*e.parts[i], scope);
      if (value.is_none()) return std::nullopt;
      return to_integer(value, "a slice");
    };
    const auto start = bound(1), stop = bound(2), given_step = bound(3);
    const auto size = static_cast<std::int64_t>(items.size());
    const std::int64_t step = std::clamp<std::int64_t>(given_step.value_or(1), -size - 1, size + 1);
    if (given_step == 0) fail("a slice has the step 0");
    const std::int64_t least = step > 0 ? 0 : -1, most = step > 0 ? size : size - 1;
    const auto place = [&](std::optional<std::int64_t> at, std::int64_t fallback) {
      if (!at) return fallback;
      return std::clamp(*at < 0 ? std::max(*at, -size - 1) + size : *at, least, most);
    };
    const std::int64_t first = place(start, step > 0 ? 0 : size - 1), last = place(stop, step > 0 ? size : -1);
    List list{.tuple = object.list() && object.list()->tuple};
    for (std::int64_t i = first; step > 0 ? i < last : i > last; i += step) list.items.push_back(items[static_cast<std::size_t>(i)]);
    if (object.list()) return list;
    std::string text;
    for (const Value& character : list.items) text += *character.string();
    budget_.text(text.size());
    return text;
  }

  Value call_parts(const Expression& e, Scope& scope, Arguments& arguments) {
    if (e.kind != Kind::call) fail("a call is missing");
    Value callee = value_of(*e.parts[0], scope);
    collect(e, scope, arguments);
    return callee;
  }
  void collect(const Expression& e, Scope& scope, Arguments& arguments) {
    for (std::size_t i = 1; i < e.parts.size(); ++i) arguments.positional.push_back(value_of(*e.parts[i], scope));
    for (const auto& [name, value] : e.named) {
      if (name == "*") {
        for (Value& item : elements(value_of(*value, scope))) arguments.positional.push_back(std::move(item));
      } else if (name == "**") {
        const Value given = value_of(*value, scope);
        if (!given.dict()) fail("what stands behind ** is no dict");
        for (const auto& [key, item] : given.dict()->items) arguments.named.emplace_back(to_text(key, "**"), item);
      } else {
        arguments.named.emplace_back(name, value_of(*value, scope));
      }
    }
    budget_.step(arguments.positional.size());
  }
  Value called(const Value& callee, Arguments arguments) {
    if (callee.is_undefined()) fail(fmt::format("'{}' is undefined, and cannot be called", callee.get<Undefined>()->name));
    if (callee.dict() && callee.dict()->call) return callee.dict()->call->call(std::move(arguments));
    if (!callee.function()) fail(fmt::format("{} cannot be called", callee.type_name()));
    return callee.function()->call(std::move(arguments));
  }

  // `given`: what a chain of filters without a value begins with.
  Value filtered(const Expression& e, std::optional<Value> given, Scope& scope) {
    const Filter filter = find_filter(e.text);
    if (filter == nullptr) fail(fmt::format("no filter named '{}'", e.text));
    Value value;
    if (!e.parts[0]) {
      value = std::move(*given);
    } else if (given && e.parts[0]->kind == Kind::filter) {
      value = filtered(*e.parts[0], std::move(given), scope);
    } else {
      value = value_of(*e.parts[0], scope);
    }
    Arguments arguments;
    collect(e, scope, arguments);
    if (value.string()) spend(2 * value.string()->size());
    return filter(context_, value, arguments);
  }

  bool test(const Expression& e, Scope& scope) {
    const Test found = find_test(e.text);
    if (found == nullptr) fail(fmt::format("no test named '{}'", e.text));
    const Value value = value_of(*e.parts[0], scope);
    Arguments arguments;
    collect(e, scope, arguments);
    return found(context_, value, arguments);
  }

  bool compared(const Expression& e, Scope& scope) {
    Value left = value_of(*e.parts[0], scope);
    for (std::size_t i = 0; i < e.ops.size(); ++i) {
      Value right = value_of(*e.parts[i + 1], scope);
      const std::string& op = e.ops[i];
      const bool holds = op == "=="       ? equal(left, right)
                         : op == "!="     ? !equal(left, right)
                         : op == "in"     ? contains(right, left)
                         : op == "not in" ? !contains(right, left)
                         : op == "<"      ? compare(left, right) < 0
                         : op == "<="     ? compare(left, right) <= 0
                         : op == ">"      ? compare(left, right) > 0
                                          : compare(left, right) >= 0;
      if (!holds) return false;
      left = std::move(right);
    }
    return true;
  }

  Value binary(const std::string& op, const Value& a, const Value& b) {
    for (const Value* side : {&a, &b}) {
      if (side->is_undefined() && (side == &a || !a.string() || op != "%"))
        fail(fmt::format("'{}' is undefined, and cannot be computed with", side->get<Undefined>()->name));
    }
    if (op == "+" && a.string() && b.string()) {
      budget_.text(a.string()->size() + b.string()->size());
      if (!a.is_markup() && !b.is_markup()) return *a.string() + *b.string();
      const auto as_html = [](const Value& v) { return v.is_markup() ? *v.string() : escaped(*v.string()); };
      return Value::markup(as_html(a) + as_html(b));
    }
    if (op == "%" && a.string()) {
      if (a.is_markup()) fail("% of HTML is not done");
      return percent_formatted(budget_, *a.string(), b);
    }
    if (op == "+" && a.list() && b.list() && a.list()->tuple == b.list()->tuple) {
      List joined = *a.list();
      budget_.step(joined.items.size() + b.list()->items.size());
      joined.items.insert(joined.items.end(), b.list()->items.begin(), b.list()->items.end());
      return joined;
    }
    if (op == "*" && (a.string() || b.string()) && (a.integer() || b.integer())) {
      const std::string& text = a.string() ? *a.string() : *b.string();
      const std::int64_t count = std::max<std::int64_t>(0, a.integer() ? *a.integer() : *b.integer());
      if (!text.empty() && count > static_cast<std::int64_t>(kMaxText / text.size())) fail("a text is too long");
      std::string repeated;
      for (std::int64_t i = 0; i < count; ++i) repeated += text;
      budget_.text(repeated.size());
      return repeated;
    }
    if (!a.is_number() || !b.is_number()) fail(fmt::format("{} {} {} means nothing", a.type_name(), op, b.type_name()));
    if (op == "**" && a.number() == 0 && b.number() < 0) fail("division by zero");
    const bool integers = !a.get<double>() && !b.get<double>();
    if (integers && op != "/") return integer_result(op, to_integer(a, op), to_integer(b, op));
    const double x = a.number(), y = b.number();
    if (op == "+") return x + y;
    if (op == "-") return x - y;
    if (op == "*") return x * y;
    if (op == "**") return std::pow(x, y);
    if (y == 0) fail("division by zero");
    if (op == "/") return x / y;
    if (op == "//") return std::floor(x / y);
    return x - y * std::floor(x / y);
  }

  static Value integer_result(const std::string& op, std::int64_t x, std::int64_t y) {
    std::int64_t result = 0;
    bool overflows = false;
    if (op == "+") {
      overflows = __builtin_add_overflow(x, y, &result);
    } else if (op == "-") {
      overflows = __builtin_sub_overflow(x, y, &result);
    } else if (op == "*") {
      overflows = __builtin_mul_overflow(x, y, &result);
    } else if (op == "**") {
      if (y < 0) return std::pow(static_cast<double>(x), static_cast<double>(y));
      result = 1;
      for (std::int64_t i = 0; i < y && !overflows && i < 64; ++i) overflows = __builtin_mul_overflow(result, x, &result);
      overflows = overflows || (y > 64 && x != 0 && x != 1 && x != -1);
      if (y > 64 && x == -1) result = y % 2 == 0 ? 1 : -1;
    } else {
      if (y == 0) fail("division by zero");
      if (y == -1) {
        overflows = op == "//" && __builtin_sub_overflow(std::int64_t{0}, x, &result);
      } else {
        const std::int64_t quotient = x / y, rest = x % y;
        const bool down = rest != 0 && ((rest < 0) != (y < 0));
        result = op == "//" ? quotient - (down ? 1 : 0) : rest + (down ? y : 0);
      }
    }
    if (overflows) fail("a number is too large");
    return result;
  }

  Budget budget_;
  Context context_{budget_};
  int depth_ = 0;
  int line_ = 0;  // of what runs
};

}  // namespace

std::string render(const Block& block, const Dict& variables) { return Evaluator().run(block, variables); }

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
