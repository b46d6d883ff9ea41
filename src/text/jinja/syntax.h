// The syntax tree of a chat template.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/jinja/value.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {

/// Nesting of expressions and statements: what a template may have, and a stack can bear.
inline constexpr int kMaxDepth = 200;

struct Expression;
using ExpressionRef = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind {
    constant,
    name,  ///< `text`
    list,  ///< parts
    tuple,
    dict,       ///< key, value, key, value, ...
    attribute,  ///< parts[0].text
    item,       ///< parts[0][parts[1]]
    slice,      ///< parts[0][parts[1]:parts[2]:parts[3]], null where absent
    call,       ///< parts[0](parts[1...], named...); names may be * and **: further arguments
    filter,     ///< parts[0] | text(parts[1...], named...)
    test,       ///< parts[0] is text(parts[1...])
    negative,
    positive,
    invert,   ///< not
    binary,   ///< text: + - * / // % **
    concat,   ///< ~ of all parts
    compare,  ///< parts[0] ops[0] parts[1] ops[1] ...: each with the next
    both,     ///< and
    either,   ///< or
    choice,   ///< parts[0] if parts[1] else parts[2], which may be absent
  };
  Kind kind = Kind::constant;
  std::string text;
  Value constant;
  std::vector<ExpressionRef> parts;
  std::vector<std::pair<std::string, ExpressionRef>> named;
  std::vector<std::string> ops;
  int depth = 1;
};

struct Statement;
using Block = std::vector<Statement>;

struct Statement {
  enum class Kind {
    text,  ///< as it is
    print,
    branch,     ///< conditions[i]: blocks[i]; one more block is the else
    loop,       ///< targets in value, if condition; blocks: body, else; may be recursive
    set,        ///< targets = value; a target with a point is an attribute of a namespace
    set_block,  ///< targets = what blocks[0] prints, through filters
    macro,      ///< text(parameters)
    call,       ///< value (a call) with blocks[0] as its caller()
    filter,     ///< what blocks[0] prints, through `value`, a chain of filters on a null
    group,      ///< blocks[0]: {% generation %}
    with,       ///< blocks[0] in a scope of its own, in which blocks[1] has set names
    stop,       ///< break
    next,       ///< continue
  };
  Kind kind = Kind::text;
  int line = 0;  ///< Where it begins.
  std::string text;
  bool recursive = false;
  std::vector<std::string> targets;
  ExpressionRef value;
  ExpressionRef condition;
  std::vector<ExpressionRef> conditions;
  std::vector<std::pair<std::string, ExpressionRef>> parameters;  ///< default values are null where there is none
  std::vector<Block> blocks;
};

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
