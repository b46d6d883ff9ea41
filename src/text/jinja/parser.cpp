#include "text/jinja/parser.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "text/jinja/lexer.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {
namespace {

using Kind = Expression::Kind;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Block run() {
    Block block = statements({});
    if (token().kind != Token::Kind::end) error("a tag ends what was not begun");
    return block;
  }

 private:
  const Token& token(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  [[noreturn]] void error(const std::string& what) const { fail(fmt::format("line {}: {}", token().line, what)); }

  bool is_sign(std::string_view sign) const { return token().kind == Token::Kind::sign && token().text == sign; }
  bool is_name(std::string_view name) const { return token().kind == Token::Kind::name && token().text == name; }
  bool take_sign(std::string_view sign) { return is_sign(sign) && ++at_; }
  bool take_name(std::string_view name) { return is_name(name) && ++at_; }
  void expect_sign(std::string_view sign) {
    if (!take_sign(sign)) error(fmt::format("'{}' is missing", sign));
  }
  void expect_name(std::string_view name) {
    if (!take_name(name)) error(fmt::format("'{}' is missing", name));
  }
  std::string name() {
    if (token().kind != Token::Kind::name) error("a name is missing");
    return tokens_[at_++].text;
  }
  void end_of_block() {
    if (token().kind != Token::Kind::block_end) error("the tag has more than it should");
    ++at_;
  }

  struct Nested {
    explicit Nested(Parser& parser) : parser_(parser) {
      if (++parser.nesting_ > kMaxDepth) parser.error("nested too deeply");
    }
    ~Nested() { --parser_.nesting_; }
    Parser& parser_;
  };

  // --- statements ----------------------------------------------------------------------------------------------------

  // Up to a tag that begins with one of `ends`, whose "{%" is taken.
  Block statements(std::initializer_list<std::string_view> ends) {
    const Nested nested(*this);
    Block block;
    while (token().kind != Token::Kind::end) {
      if (token().kind == Token::Kind::text) {
        block.push_back({.kind = Statement::Kind::text, .line = token().line, .text = token().text});
        ++at_;
      } else if (token().kind == Token::Kind::print_begin) {
        Statement print{.kind = Statement::Kind::print, .line = token().line};
        ++at_;
        print.value = tuple();
        if (token().kind != Token::Kind::print_end) error("'}}' is missing");
        ++at_;
        block.push_back(std::move(print));
      } else {
        if (token().kind != Token::Kind::block_begin) error("a tag is missing");
        ++at_;
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return is_name(end); })) return block;
        if (token().kind == Token::Kind::name && token().text.starts_with("end")) error("a tag ends what was not begun");
        const int line = token().line;
        block.push_back(statement());
        block.back().line = line;
      }
    }
    if (ends.size() != 0) error(fmt::format("'{}' is missing", *(ends.end() - 1)));
    return block;
  }

  Statement statement() {
    const std::string tag = name();
    if (tag == "if") return branch();
    if (tag == "for") return loop();
    if (tag == "set") return set();
    if (tag == "macro") return macro();
    if (tag == "with") return with();
    if (tag == "generation") return enclosed({.kind = Statement::Kind::group}, "endgeneration");
    if (tag == "filter") {
      Statement statement{.kind = Statement::Kind::filter};
      statement.value = filter_chain();
      return enclosed(std::move(statement), "endfilter");
    }
    if (tag == "call") {
      Statement statement{.kind = Statement::Kind::call};
      if (is_sign("(")) statement.parameters = parameters();
      statement.value = expression();
      return enclosed(std::move(statement), "endcall");
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) error(tag + " stands outside of a loop");
      end_of_block();
      return {.kind = tag == "break" ? Statement::Kind::stop : Statement::Kind::next};
    }
    error(fmt::format("unknown tag '{}'", tag));
  }

  Statement enclosed(Statement statement, std::string_view end) {
    end_of_block();
    statement.blocks.push_back(statements({end}));
    expect_name(end);
    end_of_block();
    return statement;
  }

  Statement branch() {
    Statement statement{.kind = Statement::Kind::branch};
    statement.conditions.push_back(tuple());
    end_of_block();
    while (true) {
      statement.blocks.push_back(statements({"elif", "else", "endif"}));
      if (take_name("elif")) {
        statement.conditions.push_back(tuple());
        end_of_block();
        continue;
      }
      if (take_name("else")) {
        end_of_block();
        statement.blocks.push_back(statements({"endif"}));
      }
      expect_name("endif");
      end_of_block();
      return statement;
    }
  }

  Statement loop() {
    Statement statement{.kind = Statement::Kind::loop, .targets = targets()};
    expect_name("in");
    statement.value = tuple(false);
    if (take_name("if")) statement.condition = expression();
    statement.recursive = take_name("recursive");
    end_of_block();
    ++loops_;
    statement.blocks.push_back(statements({"else", "endfor"}));
    --loops_;
    if (take_name("else")) {
      end_of_block();
      statement.blocks.push_back(statements({"endfor"}));
    }
    expect_name("endfor");
    end_of_block();
    return statement;
  }

  // Names, and others in brackets of their own; one in brackets takes the only element of what it is set to.
  std::vector<std::string> targets(bool with_attributes = false) {
    const Nested nested(*this);
    std::vector<std::string> names;
    bool several = false;
    do {
      if (token().kind != Token::Kind::name && !is_sign("(") && !names.empty()) break;  // a comma at the end
      if (take_sign("(")) {
        std::vector<std::string> inner = targets(with_attributes);
        expect_sign(")");
        if (inner.size() == 1) {
          names.push_back(std::move(inner.front()));
          continue;
        }
        names.emplace_back("(");
        names.insert(names.end(), inner.begin(), inner.end());
        names.emplace_back(")");
      } else {
        names.push_back(name());
        if (with_attributes && take_sign(".")) names.back() += "." + name();
      }
    } while (take_sign(",") && (several = true));
    if (several && names.size() == 1) return {"(", names.front(), ")"};
    // All in one bracket is as without it.
    if (!several && names.front() == "(") return {names.begin() + 1, names.end() - 1};
    return names;
  }

  // {% with a = 1, b = 2 %}: values do not see each other.
  Statement with() {
    Statement statement{.kind = Statement::Kind::with};
    Block names;
    while (token().kind != Token::Kind::block_end) {
      if (!names.empty()) expect_sign(",");
      Statement one{.kind = Statement::Kind::set, .targets = targets()};
      expect_sign("=");
      one.value = expression();
      names.push_back(std::move(one));
    }
    statement = enclosed(std::move(statement), "endwith");
    statement.blocks.push_back(std::move(names));
    return statement;
  }

  Statement set() {
    Statement statement{.kind = Statement::Kind::set, .targets = targets(true)};
    if (!take_sign("=")) {
      statement.kind = Statement::Kind::set_block;
      if (is_sign("|")) statement.value = filter_chain();
      return enclosed(std::move(statement), "endset");
    }
    statement.value = tuple();
    end_of_block();
    return statement;
  }

  std::vector<std::pair<std::string, ExpressionRef>> parameters() {
    std::vector<std::pair<std::string, ExpressionRef>> result;
    expect_sign("(");
    while (!take_sign(")")) {
      if (!result.empty()) expect_sign(",");
      if (take_sign(")")) break;
      std::string parameter = name();
      result.emplace_back(std::move(parameter), take_sign("=") ? expression() : nullptr);
    }
    return result;
  }

  Statement macro() {
    Statement statement{.kind = Statement::Kind::macro, .text = name()};
    statement.parameters = parameters();
    const int outside = std::exchange(loops_, 0);
    statement = enclosed(std::move(statement), "endmacro");
    loops_ = outside;
    return statement;
  }

  // --- expressions ---------------------------------------------------------------------------------------------------

  ExpressionRef make(Kind kind, std::string text = {}) {
    auto result = std::make_unique<Expression>();
    result->kind = kind;
    result->text = std::move(text);
    return result;
  }
  void add(Expression& parent, ExpressionRef part) {
    if (part) parent.depth = std::max(parent.depth, part->depth + 1);
    if (parent.depth > kMaxDepth) error("nested too deeply");
    parent.parts.push_back(std::move(part));
  }
  void add(Expression& parent, std::string argument, ExpressionRef part) {
    parent.depth = std::max(parent.depth, part->depth + 1);
    if (parent.depth > kMaxDepth) error("nested too deeply");
    parent.named.emplace_back(std::move(argument), std::move(part));
  }

  bool ends_tuple() const {
    return token().kind == Token::Kind::block_end || token().kind == Token::Kind::print_end || is_sign(")");
  }

  // One expression, or several with commas.
  ExpressionRef tuple(bool with_choice = true) {
    ExpressionRef first = with_choice ? expression() : either();
    if (!is_sign(",")) return first;
    ExpressionRef result = make(Kind::tuple);
    add(*result, std::move(first));
    while (take_sign(",") && !ends_tuple()) add(*result, with_choice ? expression() : either());
    return result;
  }

  ExpressionRef expression() {
    const Nested nested(*this);
    ExpressionRef value = either();
    while (take_name("if")) {
      ExpressionRef choice = make(Kind::choice);
      add(*choice, std::move(value));
      add(*choice, either());
      add(*choice, take_name("else") ? expression() : nullptr);
      value = std::move(choice);
    }
    return value;
  }

  ExpressionRef either() {
    ExpressionRef left = both();
    while (take_name("or")) left = joined(Kind::either, std::move(left), both());
    return left;
  }
  ExpressionRef both() {
    ExpressionRef left = inverted();
    while (take_name("and")) left = joined(Kind::both, std::move(left), inverted());
    return left;
  }
  ExpressionRef joined(Kind kind, ExpressionRef left, ExpressionRef right, std::string text = {}) {
    ExpressionRef result = make(kind, std::move(text));
    add(*result, std::move(left));
    add(*result, std::move(right));
    return result;
  }
  ExpressionRef inverted() {
    const Nested nested(*this);
    if (!take_name("not")) return comparison();
    ExpressionRef result = make(Kind::invert);
    add(*result, inverted());
    return result;
  }

  std::string comparison_sign() {
    for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (take_sign(sign)) return std::string(sign);
    }
    if (take_name("in")) return "in";
    if (is_name("not") && token(1).kind == Token::Kind::name && token(1).text == "in") {
      at_ += 2;
      return "not in";
    }
    return "";
  }
  ExpressionRef comparison() {
    ExpressionRef first = sum();
    std::string sign = comparison_sign();
    if (sign.empty()) return first;
    ExpressionRef result = make(Kind::compare);
    add(*result, std::move(first));
    for (; !sign.empty(); sign = comparison_sign()) {
      result->ops.push_back(sign);
      add(*result, sum());
    }
    return result;
  }

  ExpressionRef sum() {
    ExpressionRef left = concatenation();
    while (is_sign("+") || is_sign("-")) {
      std::string op = tokens_[at_++].text;
      left = joined(Kind::binary, std::move(left), concatenation(), std::move(op));
    }
    return left;
  }
  ExpressionRef concatenation() {
    ExpressionRef first = product();
    if (!is_sign("~")) return first;
    ExpressionRef result = make(Kind::concat);
    add(*result, std::move(first));
    while (take_sign("~")) add(*result, product());
    return result;
  }
  ExpressionRef product() {
    ExpressionRef left = power();
    while (is_sign("*") || is_sign("/") || is_sign("//") || is_sign("%")) {
      std::string op = tokens_[at_++].text;
      left = joined(Kind::binary, std::move(left), power(), std::move(op));
    }
    return left;
  }
  ExpressionRef power() {
    ExpressionRef left = unary(true);
    while (take_sign("**")) left = joined(Kind::binary, std::move(left), unary(true), "**");
    return left;
  }
  ExpressionRef unary(bool with_filters) {
    const Nested nested(*this);
    ExpressionRef result;
    if (is_sign("-") || is_sign("+")) {
      result = make(take_sign("-") ? Kind::negative : (++at_, Kind::positive));
      add(*result, unary(false));
    } else {
      result = primary();
    }
    result = postfix(std::move(result));
    return with_filters ? filters(std::move(result)) : std::move(result);
  }

  ExpressionRef constant(Value value) {
    ExpressionRef result = make(Kind::constant);
    result->constant = std::move(value);
    return result;
  }

  ExpressionRef primary() {
    const Token& current = token();
    if (current.kind == Token::Kind::name) {
      const std::string& text = current.text;
      ++at_;
      if (text == "true" || text == "True") return constant(true);
      if (text == "false" || text == "False") return constant(false);
      if (text == "none" || text == "None") return constant(None{});
      return make(Kind::name, text);
    }
    if (current.kind == Token::Kind::string) {
      std::string text;
      while (token().kind == Token::Kind::string) text += tokens_[at_++].text;
      return constant(std::move(text));
    }
    if (current.kind == Token::Kind::integer) {
      std::int64_t number = 0;
      const char* const end = current.text.data() + current.text.size();
      if (std::from_chars(current.text.data(), end, number).ec != std::errc()) error("a number is too large");
      ++at_;
      return constant(number);
    }
    if (current.kind == Token::Kind::number) {
      double number = 0;
      const char* const end = current.text.data() + current.text.size();
      if (std::from_chars(current.text.data(), end, number).ec != std::errc()) error("a number is too large");
      ++at_;
      return constant(number);
    }
    if (take_sign("(")) {
      if (take_sign(")")) return make(Kind::tuple);
      ExpressionRef inner = tuple();
      expect_sign(")");
      return inner;
    }
    if (take_sign("[")) {
      ExpressionRef list = make(Kind::list);
      while (!take_sign("]")) {
        if (!list->parts.empty()) expect_sign(",");
        if (take_sign("]")) break;
        add(*list, expression());
      }
      return list;
    }
    if (take_sign("{")) {
      ExpressionRef dict = make(Kind::dict);
      while (!take_sign("}")) {
        if (!dict->parts.empty()) expect_sign(",");
        if (take_sign("}")) break;
        add(*dict, expression());
        expect_sign(":");
        add(*dict, expression());
      }
      return dict;
    }
    error("an expression is missing");
  }

  ExpressionRef postfix(ExpressionRef value) {
    while (true) {
      if (take_sign(".")) {
        ExpressionRef result = make(token().kind == Token::Kind::integer ? Kind::item : Kind::attribute);
        add(*result, std::move(value));
        if (result->kind == Kind::item) {
          add(*result, primary());
        } else {
          result->text = name();
        }
        value = std::move(result);
      } else if (take_sign("[")) {
        value = subscript(std::move(value));
      } else if (is_sign("(")) {
        ExpressionRef result = make(Kind::call);
        add(*result, std::move(value));
        arguments(*result);
        value = std::move(result);
      } else {
        return value;
      }
    }
  }

  ExpressionRef subscript(ExpressionRef value) {
    const auto bound = [&]() -> ExpressionRef { return is_sign(":") || is_sign("]") ? nullptr : expression(); };
    ExpressionRef first = bound();
    if (take_sign("]")) {
      if (!first) error("an index is missing");
      return joined(Kind::item, std::move(value), std::move(first));
    }
    ExpressionRef slice = make(Kind::slice);
    add(*slice, std::move(value));
    add(*slice, std::move(first));
    for (int i = 0; i < 2; ++i) add(*slice, take_sign(":") ? bound() : nullptr);
    expect_sign("]");
    return slice;
  }

  void arguments(Expression& call) {
    expect_sign("(");
    for (bool first = true; !take_sign(")"); first = false) {
      if (!first) expect_sign(",");
      if (take_sign(")")) break;
      if (is_sign("*") || is_sign("**")) {
        std::string stars = tokens_[at_++].text;
        add(call, std::move(stars), expression());
      } else if (token().kind == Token::Kind::name && token(1).kind == Token::Kind::sign && token(1).text == "=") {
        std::string argument = name();
        ++at_;
        add(call, std::move(argument), expression());
      } else {
        if (!call.named.empty()) error("an argument without a name follows one with a name");
        add(call, expression());
      }
    }
  }

  ExpressionRef filters(ExpressionRef value) {
    while (true) {
      if (is_sign("|")) {
        value = one_filter(std::move(value));
      } else if (take_name("is")) {
        value = test(std::move(value));
      } else if (is_sign("(")) {
        ExpressionRef call = make(Kind::call);
        add(*call, std::move(value));
        arguments(*call);
        value = std::move(call);
      } else {
        return value;
      }
    }
  }
  ExpressionRef one_filter(ExpressionRef value) {
    expect_sign("|");
    ExpressionRef filter = make(Kind::filter, name());
    add(*filter, std::move(value));
    if (is_sign("(")) arguments(*filter);
    return filter;
  }
  // {% filter a | b %}: what they are applied to is found when it runs.
  ExpressionRef filter_chain() {
    ExpressionRef chain = nullptr;
    if (!is_sign("|")) {
      chain = make(Kind::filter, name());
      add(*chain, nullptr);
      if (is_sign("(")) arguments(*chain);
    }
    while (is_sign("|")) chain = one_filter(std::move(chain));
    return chain;
  }
  ExpressionRef test(ExpressionRef value) {
    const bool inverts = take_name("not");
    ExpressionRef result = make(Kind::test, name());
    add(*result, std::move(value));
    const Token::Kind kind = token().kind;
    const bool literal = kind == Token::Kind::string || kind == Token::Kind::integer || kind == Token::Kind::number;
    const bool word = kind == Token::Kind::name && !is_name("else") && !is_name("or") && !is_name("and") &&
                      !is_name("is") && !is_name("if") && !is_name("in") && !is_name("not");
    if (is_sign("(")) {
      arguments(*result);
    } else if (literal || word || is_sign("[") || is_sign("{")) {
      add(*result, postfix(primary()));
    }
    if (!inverts) return result;
    ExpressionRef not_it = make(Kind::invert);
    add(*not_it, std::move(result));
    return not_it;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;
};

}  // namespace

Block parse(std::string_view source) { return Parser(tokenize(source)).run(); }

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
