// Filters of texts, and those that make one.
#include <algorithm>

#include "text/jinja/evaluator.h"
#include "text/jinja/numbers.h"
#include "text/jinja/strings.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {
namespace {

Value counted_text(Context& context, std::string text) {
  context.budget.text(text.size());
  return text;
}

Value center_filter(Context& context, const Value& value, const Arguments& a) {
  return counted_text(context,
                      padded(value.to_string(), to_integer(argument(a, 0, "width", 80), "center"), ' ', Padding::both));
}

Value format_filter(Context& context, const Value& value, const Arguments& a) {
  if (value.is_markup()) fail("format of HTML is not done");
  if (a.named.empty())
    return percent_formatted(context.budget, value.to_string(), List{.items = a.positional, .tuple = true});
  if (!a.positional.empty()) fail("format: values with and without names");
  Dict named;
  for (const auto& [name, item] : a.named) named.set(name, item);
  return percent_formatted(context.budget, value.to_string(), named);
}

Value truncate_filter(Context& context, const Value& value, const Arguments& a) {
  const std::int64_t length = to_integer(argument(a, 0, "length", 255), "truncate");
  const std::u32string end = decode_utf8_lossy(argument(a, 2, "end", "...").to_string());
  const std::int64_t leeway = to_integer(argument(a, 3, "leeway", 5), "truncate");
  std::u32string text = decode_utf8_lossy(value.to_string());
  const std::int64_t room = length - static_cast<std::int64_t>(end.size());
  if (room < 0 || leeway < 0) fail("truncate: a length below that of the end, or a leeway below 0");
  if (static_cast<std::int64_t>(text.size()) > length + leeway) {
    text.resize(static_cast<std::size_t>(room));
    if (!argument(a, 1, "killwords", false).truth()) text.resize(std::min(text.rfind(U' '), text.size()));
    text += end;
  }
  return counted_text(context, encode_utf8(text));
}

Value wordcount_filter(Context&, const Value& value, const Arguments&) {
  std::int64_t count = 0;
  bool inside = false;
  for (const char32_t c : decode_utf8_lossy(value.to_string())) {
    const bool word = c == U'_' || in_mask(c, *category_mask("L") | *category_mask("N"));
    count += word && !inside ? 1 : 0;
    inside = word;
  }
  return count;
}

struct TextFilterRow {
  std::string_view name;
  Filter run;
};
constexpr TextFilterRow kTextFilters[] = {
    {"center", center_filter},
    {"format", format_filter},
    {"truncate", truncate_filter},
    {"wordcount", wordcount_filter},
    {"forceescape", [](Context&, const Value& v, const Arguments&) { return Value::markup(escaped(v.to_string())); }},
};

}  // namespace

Filter find_text_filter(std::string_view name) {
  const auto row = std::find_if(std::begin(kTextFilters), std::end(kTextFilters),
                                [&](const TextFilterRow& r) { return r.name == name; });
  return row == std::end(kTextFilters) ? nullptr : row->run;
}

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
