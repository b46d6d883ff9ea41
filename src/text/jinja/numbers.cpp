#include "text/jinja/numbers.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "text/jinja/strings.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {
namespace {

// Digits with underscores between two of them; false where there is another.
bool without_underscores(std::string& text) {
  const auto is_digit = [&](std::size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_' && (i == 0 || !is_digit(i - 1) || !is_digit(i + 1))) return false;
  }
  std::erase(text, '_');
  return true;
}

// A text with a sign in front, of at least `width` signs.
struct Layout {
  char fill = ' ';
  char align = '>';  ///< < > ^ =
  char sign = '-';   ///< - + or a space
  bool alternate = false;
  bool grouped = false;
  std::size_t width = 0;
  int precision = -1;

  std::string of(std::string_view front, std::string_view body) const {
    const std::size_t used = characters(front).size() + characters(body).size();
    const std::size_t missing = width > used ? width - used : 0;
    const std::size_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
    const std::string inner(align == '=' ? missing : 0, fill);
    const std::string before(left, fill), after(missing - left - inner.size(), fill);
    return fmt::format("{}{}{}{}{}", before, front, inner, body, after);
  }
};

constexpr std::size_t kWidest = 1000;

std::size_t limited(std::size_t value) {
  if (value > kWidest) fail("format: a width of more than 1000");
  return value;
}

std::string_view sign_of(bool negative, const Layout& layout) {
  return negative ? "-" : layout.sign == '+' ? "+" : layout.sign == ' ' ? " " : "";
}

std::string with_commas(std::string digits) {
  const std::size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (std::size_t at = end; at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string integer_text(std::int64_t value, char kind, const Layout& layout, bool digits_of_precision) {
  const std::uint64_t size = value < 0 ? -static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  std::string digits = kind == 'x'   ? fmt::format("{:x}", size)
                       : kind == 'X' ? fmt::format("{:X}", size)
                       : kind == 'o' ? fmt::format("{:o}", size)
                       : kind == 'b' ? fmt::format("{:b}", size)
                                     : fmt::format("{}", size);
  if (digits_of_precision && layout.precision > static_cast<int>(digits.size()))
    digits.insert(0, static_cast<std::size_t>(layout.precision) - digits.size(), '0');
  if (layout.grouped) digits = with_commas(std::move(digits));
  std::string front(sign_of(value < 0, layout));
  if (layout.alternate && kind != 'd') front += std::string("0") + kind;
  return layout.of(front, digits);
}

std::string float_of(double value, char kind, const Layout& layout) {
  const bool percent = kind == '%';
  const double shown = percent ? value * 100 : value;
  std::string body;
  if (!std::isfinite(shown)) {
    body = std::isnan(shown) ? "nan" : "inf";
    if (kind >= 'A' && kind <= 'Z') body = upper(body);
  } else {
    const std::string form = fmt::format("%{}.*{}", layout.alternate ? "#" : "", percent ? 'f' : kind);
    std::array<char, 1600> buffer{};
    std::snprintf(buffer.data(), buffer.size(), form.c_str(), layout.precision < 0 ? 6 : layout.precision,
                  std::fabs(shown));
    body = buffer.data();
    if (layout.grouped) body = with_commas(std::move(body));
  }
  if (percent) body += '%';
  return layout.of(sign_of(std::signbit(shown) && !std::isnan(shown), layout), body);
}

std::string first_characters(const std::string& text, int count) {
  if (count < 0) return text;
  std::string result;
  for (const std::string& character : characters(text)) {
    if (count-- <= 0) break;
    result += character;
  }
  return result;
}

}  // namespace

std::optional<std::int64_t> parsed_integer(std::string_view text, std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  std::string digits = stripped(text, kSpaces, true, true);
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  const char mark = digits.size() > 1 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : ' ';
  const std::int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  if (marked != 0 && (base == marked || base == 0)) {
    digits.erase(0, digits.size() > 2 && digits[2] == '_' ? 3 : 2);
    base = marked;
  } else if (base == 0) {
    base = 10;
    if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of("0_") != std::string::npos)
      return std::nullopt;
  }
  if (!without_underscores(digits) || digits.empty() || digits[0] == '-') return std::nullopt;
  if (negative) digits.insert(0, "-");
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, static_cast<int>(base));
  if (end != digits.data() + digits.size() || error == std::errc::invalid_argument) return std::nullopt;
  if (error != std::errc()) fail("a number is too large");
  return value;
}

std::optional<double> parsed_float(std::string_view text) {
  std::string digits = stripped(text, kSpaces, true, true);
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.erase(0, 1);
  if (!without_underscores(digits)) return std::nullopt;
  if (digits.find('(') != std::string::npos) return std::nullopt;  // nan(...)
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || end != digits.data() + digits.size() || error == std::errc::invalid_argument)
    return std::nullopt;
  if (error == std::errc()) return value;
  // Too large, or too small: an exponent tells.
  const std::size_t exponent = digits.find_first_of("eE");
  const bool small = exponent != std::string::npos ? digits.find('-', exponent) != std::string::npos
                                                   : digits.find_first_of("123456789.") == digits.find('.');
  const double size = small ? 0.0 : HUGE_VAL;
  return digits.starts_with('-') ? -size : size;
}

double rounded(double value, std::int64_t digits) {
  if (digits < 0) fail("round: a negative precision is not done");
  if (!std::isfinite(value) || digits > 300) return value;
  std::array<char, 800> buffer{};
  const int length = std::snprintf(buffer.data(), buffer.size(), "%.*f", static_cast<int>(digits), value);
  double result = value;
  std::from_chars(buffer.data(), buffer.data() + length, result);
  return result;
}

std::string percent_formatted(Budget& budget, std::string_view text, const Value& values) {
  const List* tuple = values.list() && values.list()->tuple ? values.list() : nullptr;
  std::size_t used = 0;
  bool named = false;
  const auto next = [&]() -> Value {
    if (tuple != nullptr && used < tuple->items.size()) return tuple->items[used++];
    if (tuple != nullptr || used++ > 0) fail("format: the text asks for more than it is given");
    return values;
  };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    const auto sign = [&] {
      if (++i >= text.size()) fail("format: the text ends behind a %");
      return text[i];
    };
    char c = sign();
    std::optional<Value> value;
    if (c == '(') {
      const std::size_t end = text.find(')', i);
      if (end == std::string_view::npos || !values.dict()) fail("format: a name needs a dict");
      const Value* found = values.dict()->find(text.substr(i + 1, end - i - 1));
      if (found == nullptr) fail("format: the text asks for more than it is given");
      value = *found;
      named = true;
      i = end;
      c = sign();
    }
    Layout layout;
    bool zeros = false;
    for (; std::string_view("-+ 0#").find(c) != std::string_view::npos; c = sign()) {
      if (c == '-') layout.align = '<';
      if (c == '+' || (c == ' ' && layout.sign != '+')) layout.sign = c;
      if (c == '0') zeros = true;
      if (c == '#') layout.alternate = true;
    }
    const auto number = [&]() -> std::size_t {
      std::size_t size = 0;
      if (c == '*') {
        const Value given = next();
        if (!given.integer()) fail("format: * needs an integer");
        if (*given.integer() < 0) layout.align = '<';
        size = limited(static_cast<std::size_t>(std::abs(*given.integer())));
        c = sign();
        return size;
      }
      for (; c >= '0' && c <= '9'; c = sign()) size = limited(size * 10 + static_cast<std::size_t>(c - '0'));
      return size;
    };
    layout.width = number();
    if (c == '.') {
      c = sign();
      layout.precision = static_cast<int>(number());
    }
    while (c == 'h' || c == 'l' || c == 'L') c = sign();
    if (c == '%') {
      result += '%';
      continue;
    }
    if (!value) value = next();
    const bool is_number = std::string_view("diuxXoeEfFgG").find(c) != std::string_view::npos;
    if (is_number && !value->is_number())
      fail(fmt::format("format: %{} needs a number, not {}", c, value->type_name()));
    if (is_number && zeros && layout.align == '>') {
      layout.fill = '0';
      layout.align = '=';
    }
    if (c == 's' || c == 'r') {
      result += layout.of("", first_characters(c == 's' ? value->to_string() : value->repr(), layout.precision));
    } else if (std::string_view("diuxXo").find(c) != std::string_view::npos) {
      const double size = value->number();
      const bool decimal = c == 'd' || c == 'i' || c == 'u';
      if (value->get<double>() && (!decimal || !(std::fabs(size) < 0x1p63))) fail("format: no integer");
      result += integer_text(value->integer() ? *value->integer() : static_cast<std::int64_t>(size), decimal ? 'd' : c,
                             layout, true);
    } else if (is_number) {
      result += float_of(value->number(), c, layout);
    } else {
      fail(fmt::format("format: %{} is not done", c));
    }
  }
  if ((tuple != nullptr && used < tuple->items.size()) ||
      (tuple == nullptr && !values.dict() && !values.list() && used == 0 && !named)) {
    fail("format: not all is used");
  }
  budget.text(result.size());
  return result;
}

std::string formatted_by(Budget& budget, const Value& value, std::string_view spec) {
  if (spec.empty()) return value.to_string();
  Layout layout{.align = value.is_number() ? '>' : '<'};
  const std::string_view whole = spec;
  const auto wrong = [&] { fail(fmt::format("format: ':{}' of {} is not done", whole, value.type_name())); };
  if (!value.is_number() && !value.string()) wrong();
  std::size_t fill = 0;
  if (!spec.empty()) fill = characters(spec).front().size();
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (spec.size() > fill && is_align(spec[fill])) {
    if (fill != 1) wrong();
    layout.fill = spec[0];
    layout.align = spec[1];
    spec.remove_prefix(2);
  } else if (is_align(spec[0])) {
    layout.align = spec[0];
    spec.remove_prefix(1);
  }
  const auto take = [&](std::string_view set) {
    if (spec.empty() || set.find(spec[0]) == std::string_view::npos) return '\0';
    const char c = spec[0];
    spec.remove_prefix(1);
    return c;
  };
  const char sign = take("-+ ");
  if (sign != '\0') layout.sign = sign;
  layout.alternate = take("#") != '\0';
  if (take("0") != '\0' && whole.find_first_of("<>^=") == std::string_view::npos) {
    layout.fill = '0';
    layout.align = '=';
  }
  while (const char digit = take("0123456789"))
    layout.width = limited(layout.width * 10 + static_cast<std::size_t>(digit - '0'));
  layout.grouped = take(",") != '\0';
  if (take(".") != '\0') {
    std::size_t precision = 0;
    if (spec.empty() || spec[0] < '0' || spec[0] > '9') wrong();
    while (const char digit = take("0123456789"))
      precision = limited(precision * 10 + static_cast<std::size_t>(digit - '0'));
    layout.precision = static_cast<int>(precision);
  }
  const char kind = spec.empty() ? '\0' : spec[0];
  if (spec.size() > 1 || (layout.grouped && layout.fill == '0')) wrong();
  std::string result;
  if (value.string()) {
    if ((kind != '\0' && kind != 's') || sign != '\0' || layout.alternate || layout.align == '=' || layout.grouped)
      wrong();
    result = layout.of("", first_characters(*value.string(), layout.precision));
  } else if (std::string_view("eEfFgG%").find(kind) != std::string_view::npos && kind != '\0') {
    result = float_of(value.number(), kind, layout);
  } else if (value.integer() && (kind == '\0' || std::string_view("dxXob").find(kind) != std::string_view::npos) &&
             layout.precision < 0) {
    result = integer_text(*value.integer(), kind == '\0' ? 'd' : kind, layout, false);
  } else if (value.get<double>() && kind == '\0' && layout.precision < 0 && !layout.alternate && !layout.grouped) {
    const double number = value.number();
    const std::string body = Value(std::fabs(number)).to_string();
    result = layout.of(sign_of(std::signbit(number), layout), body);
  } else {
    wrong();
  }
  budget.text(result.size());
  return result;
}

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
