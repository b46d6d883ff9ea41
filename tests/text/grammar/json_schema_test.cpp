#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/text/grammar.h>

namespace lockstep::text {
namespace {

using testing::HasSubstr;

void expect_fit(const std::string& schema, const std::vector<std::string>& good, const std::vector<std::string>& bad) {
  const Grammar grammar = Grammar::from_json_schema(schema);
  for (const std::string& text : good) EXPECT_TRUE(grammar.matches(text)) << schema << "\n" << text;
  for (const std::string& text : bad) EXPECT_FALSE(grammar.matches(text)) << schema << "\n" << text;
}

TEST(JsonSchema, SimpleTypes) {
  expect_fit(R"({"type":"integer"})", {"0", "-7", "12345"}, {"", "01", "1.0", "1e3", "+1", "\"1\"", "-"});
  expect_fit(R"({"type":"number"})", {"0", "-0.5", "1e9", "2.50E-3"}, {".5", "1.", "1e", "NaN", "0x1"});
  expect_fit(R"({"type":"boolean"})", {"true", "false"}, {"True", "1", "tru"});
  expect_fit(R"({"type":"null"})", {"null"}, {"", "nil"});
  expect_fit(R"({"type":["string","null"]})", {"null", "\"\""}, {"1"});
  expect_fit(R"({"type":"string"})", {"\"\"", "\"h\u00e9 \\n \\u00e9\"", "\"\\\"\""},
             {"a", "\"", "\"\\x\"", "\"\n\"", "\"\\ud800\"", "\"a\"b\""});
  expect_fit(R"({"type":"string","minLength":2,"maxLength":3})", {"\"ab\"", "\"日本語\"", "\"\\n\\n\""},
             {"\"a\"", "\"abcd\""});
  expect_fit(R"({"type":["string","array"],"minLength":1,"maxItems":1})", {"\"a\"", "[]", "[3]"}, {"\"\"", "[1,2]"});
  expect_fit("{}", {"1", "\"a\"", "{\"a\": [1, {}]}", "[\n  true\n]"}, {"", "{", "[1,]", "{\"a\":}"});
  expect_fit("true", {"null"}, {"nul"});
}

TEST(JsonSchema, RangesOfIntegers) {
  const auto digits = [](std::int64_t value) { return std::to_string(value); };
  for (const auto& [least, most] : {std::pair<std::int64_t, std::int64_t>{0, 0},
                                    {3, 3},
                                    {0, 9},
                                    {7, 12},
                                    {10, 99},
                                    {18, 1065},
                                    {-5, 5},
                                    {-120, -7},
                                    {-1000, 0},
                                    {-33, 1199},
                                    {199, 201}}) {
    const Grammar grammar = Grammar::from_json_schema("{\"type\":\"integer\",\"minimum\":" + digits(least) +
                                                      ",\"maximum\":" + digits(most) + "}");
    for (std::int64_t value = -1250; value <= 1250; ++value) {
      ASSERT_EQ(grammar.matches(digits(value)), value >= least && value <= most)
          << value << ": " << least << " to " << most;
    }
    for (const char* text : {"", "-", "-0", "00", "01", "1.0", "+3"}) EXPECT_FALSE(grammar.matches(text)) << text;
  }
  expect_fit(R"({"type":"integer","exclusiveMinimum":0})", {"1", "10", "9999999999999999"},
             {"0", "-1", "10000000000000000"});
  expect_fit(R"({"type":"integer","exclusiveMaximum":-10})", {"-11", "-9999999999999999"}, {"-10", "-9", "0", "11"});
  expect_fit(R"({"type":["integer","null"],"minimum":5,"maximum":6})", {"5", "6", "null"}, {"4", "7"});
}

TEST(JsonSchema, RangesOfNumbers) {
  for (const auto& [least, most] :
       {std::pair{0, 1}, {0, 0}, {3, 12}, {-4, 3}, {-12, -10}, {-11, 0}, {-1, 1}, {-3, -3}}) {
    for (const int excluded : {0, 1, 2, 3}) {
      const bool above = (excluded & 1) != 0;
      const bool below = (excluded & 2) != 0;
      const std::string schema =
          fmt::format(R"({{"type":"number","{}":{},"{}":{}}})", above ? "exclusiveMinimum" : "minimum", least,
                      below ? "exclusiveMaximum" : "maximum", most);
      if (least == most && excluded != 0) {
        EXPECT_THROW(Grammar::from_json_schema(schema), FormatError) << schema;
        continue;
      }
      const Grammar grammar = Grammar::from_json_schema(schema);
      for (int eighths = -120; eighths <= 120; ++eighths) {
        const double value = eighths / 8.0;
        const bool within = (above ? value > least : value >= least) && (below ? value < most : value <= most);
        ASSERT_EQ(grammar.matches(fmt::format("{}", value == 0 ? 0 : value)), within) << schema << " " << value;
        ASSERT_EQ(grammar.matches(fmt::format("{:.3f}", value == 0 ? 0 : value)), within) << schema << " " << value;
      }
      for (const char* text : {"", "-", "00", "01", "1.", ".5", "+1", "1e0"})
        EXPECT_FALSE(grammar.matches(text)) << text;
    }
  }
  expect_fit(R"({"type":"number","exclusiveMinimum":0})", {"0.001", "1", "73.5"}, {"0", "0.0", "-1", "-0.5"});
  expect_fit(R"({"type":["number","null"],"maximum":-2})", {"-2", "-2.5", "-100", "null"}, {"-1.9", "0", "3"});
}

TEST(JsonSchema, FormatsOfStrings) {
  const auto of = [](const std::string& format) { return R"({"type":"string","format":")" + format + R"("})"; };
  expect_fit(of("date"), {R"("2026-11-28")"}, {R"("2026-13-28")", R"("2026-11-32")", R"("26-1-2")", R"("")"});
  expect_fit(of("time"), {R"("23:59:00Z")", R"("01:02:03.25+05:30")"},
             {R"("24:00:00Z")", R"("01:02")", R"("01:02:03")"});
  expect_fit(of("date-time"), {R"("2026-11-28T01:02:03Z")"}, {R"("2026-11-28")", R"("2026-11-28 01:02:03Z")"});
  expect_fit(of("uuid"), {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"});
  expect_fit(of("ipv4"), {R"("192.168.0.1")", R"("255.255.255.255")"},
             {R"("256.0.0.1")", R"("1.2.3")", R"("01.2.3.4")"});
  expect_fit(of("email"), {R"("ada.b@example.org")"}, {R"("ada")", R"("a@b")", R"("@b.org")", R"("a@b..org")"});
  expect_fit(R"({"anyOf":[{"type":["string","null"],"format":"date"}]})", {"null", R"("2026-11-28")"}, {R"("x")"});
}

TEST(JsonSchema, Objects) {
  const std::string schema =
      R"({"title":"P","type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},"ok":{"type":"boolean"}},
          "required":["name","ok"]})";
  expect_fit(
      schema,
      {R"({"name":"Ann","age":3,"ok":true})", R"({"name":"","ok":false})", "{\n  \"name\": \"A\",\n  \"ok\": true\n}"},
      {"{}", R"({"name":"Ann"})", R"({"ok":true,"name":"a"})", R"({"name":"a","ok":true,"more":1})",
       R"({"name":1,"ok":true})", R"({"name":"a",,"ok":true})", R"({"name":"a","ok":true,})"});
  expect_fit(R"({"properties":{"a":{},"b":{},"c":{}}})",
             {"{}", R"({"a":1})", R"({"b":1})", R"({"c":1})", R"({"a":1,"c":2})", R"({"a":1,"b":2,"c":3})"},
             {R"({"b":1,"a":2})", R"({,"a":1})", R"({"d":1})"});
  expect_fit(R"({"type":"object"})", {"{}", R"({"x":{"y":[]}})"}, {"[]", "{x:1}"});
  expect_fit(R"({"type":"object","additionalProperties":{"type":"integer"}})", {"{}", R"({"x":1,"y":2})"},
             {R"({"x":"1"})"});
  expect_fit(R"({"type":"object","additionalProperties":false})", {"{}", "{ }"}, {R"({"x":1})"});
}

TEST(JsonSchema, PatternsAreSearchedUnlessAnchored) {
  const auto expect = [](const std::string& pattern, const std::vector<std::string>& good,
                         const std::vector<std::string>& bad) {
    expect_fit(R"({"type":"string","pattern":")" + pattern + "\"}", good, bad);
  };
  expect("b+", {R"("b")", R"("abbc")", R"("\u00e9\nb\"")"}, {R"("")", R"("ac")", "b", R"("b)", R"("b"")"});
  expect("^b", {R"("b")", R"("bac")"}, {R"("ab")", R"("")"});
  expect("b$", {R"("b")", R"("\"ab")"}, {R"("ba")"});
  expect("^a|b$", {R"("ac")", R"("cb")", R"("a")"}, {R"("ca")", R"("bc")"});
  expect("^(|a$)$", {R"("")", R"("a")"}, {R"("aa")", R"("b")"});
  expect(R"(^[A-Z]{2,3}-(?:\\d{4}|x*?)$)", {R"("AB-1234")", R"("ABC-")", R"("ABC-xx")"},
         {R"("A-1234")", R"("AB-123")", R"("ABCD-")", R"("AB-٣٣٣٣")", R"("AB-1234 ")"});
  expect("^(a*)*(?<n>b?){2}$", {R"("")", R"("aab")", R"("bb")"}, {R"("ba")", R"("bbb")"});
  expect("", {R"("")", R"("x")"}, {"1"});
}

// Characters are written as JSON wants them; classes are ECMAScript's.
TEST(JsonSchema, PatternsReadCharactersOfStrings) {
  const auto expect = [](const std::string& pattern, const std::vector<std::string>& good,
                         const std::vector<std::string>& bad) {
    expect_fit(R"({"pattern":")" + pattern + "\"}", good, bad);
  };
  expect(R"(^[\"\\\\\n]+$)", {R"("\"\\\n")"}, {R"(""")", "\"\n\"", R"("\")", R"("n")"});
  expect(R"(^[\\x00-\\x20]$)", {R"("\u0000")", R"("\u001F")", R"("\t")", R"(" ")"},
         {R"("\u0021")", R"("\u0009")", R"("!")"});
  expect("^.$", {R"("é")", R"("\"")", R"("😀")", "\"\x7f\""}, {R"("\n")", R"("\r")", "\"\u2028\"", R"("")", R"("ab")"});
  expect(R"(^[^a-c]\\W$)", {R"("d-")", R"("\\é")", R"("\u0001\n")"}, {R"("a-")", R"("dz")", R"("d_")"});
  expect(R"(^\\s[\\S]$)", {"\"\ufeffx\"", "\"\u3000x\"", R"("\f\"")"}, {R"("x ")", R"("  ")"});
  expect(R"(^\\p{Lu}\\P{L}[\\d.]$)", {R"("É1.")", R"("A😀7")"}, {R"("é1.")", R"("AB1")"});
  expect(R"(^(\\ud83d\\ude00|\\u{1F601}|[[&&]])$)", {R"("😀")", R"("😁")", R"("[]")", R"("&]")"}, {R"("😂")", R"("[")"});
  expect("^a{,2}{$", {R"("a{,2}{")"}, {R"("{")", R"("aa{")"});
}

TEST(JsonSchema, PatternsHaveLengths) {
  expect_fit(R"({"pattern":"^(ab|é)*$","minLength":2,"maxLength":3})", {R"("ab")", R"("éé")", R"("éab")", R"("ééé")"},
             {R"("")", R"("é")", R"("abab")", R"("a")"});
  expect_fit(R"({"pattern":"b","minLength":2})", {R"("ab")", R"("b\"")", R"("aabaa")"}, {R"("b")", R"("aa")"});
  expect_fit(R"({"pattern":"^b|b$","maxLength":1})", {R"("b")"}, {R"("ab")", R"("")"});
  expect_fit(R"({"pattern":"c*","maxLength":0})", {R"("")"}, {R"("c")"});
  expect_fit(R"({"type":["string","null"],"pattern":"^[a-z]+$","maxLength":2000})",
             {"null", R"("abc")", '"' + std::string(2000, 'q') + '"'},
             {R"("1")", R"("")", '"' + std::string(2001, 'q') + '"'});
}

// A further member cannot have the name of a property, which would change its type.
TEST(JsonSchema, FurtherMembersHaveOtherNames) {
  expect_fit(
      R"({"properties":{"ab":{"type":"integer"},"a":{"type":"integer"},"é":{"type":"integer"}},"required":["ab"],"additionalProperties":{"type":"string"}})",
      {R"({"ab":1,"x":"1"})", R"({"ab":1,"a":2,"":"y"})", R"({"ab":1,"abc":"y","b":"z"})", R"({"ab":1,"ac":"z"})",
       R"({"ab":1,"è":"z"})"},
      {R"({"ab":1,"ab":"1"})", R"({"ab":1,"a":"1"})", R"({"ab":1,"\u0061":"1"})", R"({"x":"1"})",
       R"({"ab":1,"é":"1"})"});
}

TEST(JsonSchema, Arrays) {
  expect_fit(R"({"type":"array","items":{"type":"integer"}})", {"[]", "[1]", "[1, 2,\n 3]"}, {"[1,]", "[\"a\"]", "1"});
  expect_fit(R"({"type":"array"})", {"[]", "[1,\"a\",{}]"}, {"{}"});
  expect_fit(R"({"items":{"type":"integer"},"minItems":2,"maxItems":3})", {"[1,2]", "[1,2,3]"},
             {"[]", "[1]", "[1,2,3,4]"});
  expect_fit(R"({"items":{"type":"integer"},"minItems":1})", {"[1]", "[1,2,3,4,5,6]"}, {"[]"});
  expect_fit(R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"});
  expect_fit(R"({"prefixItems":[{"type":"integer"},{"type":"string"}]})", {"[1,\"a\"]"},
             {"[]", "[1]", "[1,\"a\",2]", "[\"a\",1]"});
  expect_fit(R"({"prefixItems":[{"type":"integer"}],"items":{"type":"null"},"maxItems":2})", {"[1]", "[1,null]"},
             {"[1,2]", "[1,null,null]"});
}

TEST(JsonSchema, ValuesAndChoices) {
  expect_fit(R"({"allOf":[{"type":"integer"}],"title":"t"})", {"3"}, {"null"});
  expect_fit(R"({"enum":["red","a \"b\"\n\\",3,null,{"x":[1,2]}]})",
             {"\"red\"", R"("a \"b\"\n\\")", "3", "null", R"({"x":[1,2]})"}, {"\"blue\"", "4", "red"});
  expect_fit(R"({"const":"x"})", {"\"x\""}, {"\"y\""});
  expect_fit(R"({"anyOf":[{"type":"integer"},{"type":"string"}]})", {"1", "\"a\""}, {"true"});
  expect_fit(R"({"oneOf":[{"const":1},{"properties":{"t":{"const":"q"}},"required":["t"]}]})", {"1", R"({"t":"q"})"},
             {"{}"});
}

TEST(JsonSchema, ATypeBesideValuesAndChoicesHolds) {
  expect_fit(R"({"type":"string","enum":["a",1,null]})", {"\"a\""}, {"1", "null"});
  expect_fit(R"({"type":["integer","null"],"enum":["a",1,1.5,null]})", {"1", "null"}, {"\"a\"", "1.5"});
  expect_fit(R"({"type":"object","anyOf":[{"$ref":"#/$defs/a"},{"type":"object","additionalProperties":false}],
                 "$defs":{"a":{"properties":{"x":{"const":1}}}}})",
             {R"({"x":1})", "{}"}, {"1", R"({"x":2})"});
  expect_fit(R"({"type":"array","$ref":"#/$defs/a","$defs":{"a":{"items":{"type":"null"}}}})", {"[null]"}, {"[1]"});
  const auto refused = [](const char* schema) {
    return message_of<FormatError>([&] { Grammar::from_json_schema(schema); });
  };
  EXPECT_THAT(refused(R"({"type":"string","enum":[1]})"), HasSubstr("no value of enum has the type"));
  for (const char* other :
       {R"("const":1)", R"("anyOf":[{"type":"string"},{"type":"null"}])", R"("oneOf":[{"const":1}])",
        R"("allOf":[{"type":"number"}])", R"("$ref":"#/$defs/a")", R"("$ref":"#/$defs/b")"}) {
    EXPECT_THAT(
        refused(fmt::format(R"({{"type":"string",{},"$defs":{{"a":{{"type":"integer"}},"b":{{"$ref":"#/$defs/b"}}}}}})",
                            other)
                    .c_str()),
        HasSubstr("allows other values than the type beside it"))
        << other;
  }
}

TEST(JsonSchema, WithoutATypeItIsThatOfTheKeywords) {
  expect_fit(R"({"minLength":2})", {"\"ab\""}, {"\"a\"", "1"});
  expect_fit(R"({"minimum":3})", {"3", "3.5"}, {"2", "\"a\""});
  expect_fit(R"({"maxItems":1})", {"[]", "[1]"}, {"[1,2]"});
}

TEST(JsonSchema, RefersToItself) {
  const std::string tree =
      R"({"$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"required":["v"]}},"$ref":"#/$defs/tree"})";
  expect_fit(tree, {R"({"v":1})", R"({"v":1,"kids":[{"v":2},{"v":3,"kids":[{"v":4}]}]})"}, {R"({"v":1,"kids":[{}]})"});
  expect_fit(R"({"properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["next"]})",
             {R"({"next":null})", R"({"next":{"next":{"next":null}}})"}, {R"({"next":{}})"});
}

TEST(JsonSchema, RefusesByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "no JSON"},
      {"3", "no schema"},
      {"false", "no schema that allows anything"},
      {R"({"type":"string","pattern":5})", "pattern is no text"},
      {R"({"type":"integer","pattern":"a"})", "\"pattern\" is not offered"},
      {R"({"properties":{"a":{"pattern":"(a)\\1"}}})", R"(#/properties/a: the pattern "(a)\\1" has a backreference)"},
      {R"({"pattern":"(?<x>a)\\k<x>"})", "has a backreference"},
      {R"({"pattern":"(?=a)b"})", "looks ahead"},
      {R"({"pattern":"(?<!a)b"})", "looks behind"},
      {R"({"pattern":"\\bword"})", "has a word boundary"},
      {R"({"pattern":"a++"})", "quantifier behind a quantifier"},
      {R"({"pattern":"(?>a)b"})", "group that is not supported"},
      {R"({"pattern":"\\h"})", R"(has the escape \h)"},
      {R"({"pattern":"(a"})", "lacks a )"},
      {R"({"pattern":"\\ud83d"})", "half of a surrogate pair"},
      {R"({"pattern":"a^b"})", "is found in no text"},
      {R"({"pattern":"^a{3}$","maxLength":2})", "is found in no text of these lengths"},
      {R"({"pattern":"a","minLength":3,"maxLength":2})", "minLength is above maxLength"},
      {R"({"pattern":"(((){1000}){1000}){1000}"})", "needs more than 100000 steps"},
      {R"({"pattern":"^(a?){600}$","maxLength":600})", "needs more than 100000 steps"},
      {R"({"type":"number","minimum":3.5})", "minimum is no integer of at most 16 digits"},
      {R"({"type":"number","minimum":3,"exclusiveMaximum":3})", "no number is within its bounds"},
      {R"({"type":"number","minimum":3,"maximum":2})", "no number is within its bounds"},
      {R"({"allOf":[{"type":"number"},{"minimum":2}]})", "allOf is offered of one schema alone"},
      {R"({"type":"integer","minimum":3.5})", "minimum is no integer of at most 16 digits"},
      {R"({"type":"integer","maximum":1e17})", "maximum is no integer of at most 16 digits"},
      {R"({"type":"integer","maximum":"x"})", "maximum is no integer of at most 16 digits"},
      {R"({"type":"integer","minimum":3,"exclusiveMaximum":3})", "no integer is within its bounds"},
      {R"({"type":"string","format":"iri"})", "the format \"iri\" is not offered"},
      {R"({"type":"string","format":"date","pattern":"a"})", "not offered together"},
      {R"({"allOf":[]})", "allOf is offered of one schema alone"},
      {R"({"properties":{"a":{"type":"text"}}})", "#/properties/a: there is no type \"text\""},
      {R"({"type":"object","properties":{"a":{}},"required":["b"]})", "is required, but no property"},
      {R"({"$ref":"#/$defs/x"})", "there is no \"#/$defs/x\""},
      {R"({"$ref":"other.json"})", "leads out"},
      {R"({"$ref":"#"})", "no text"},
      {R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})", "no text"},
      {R"({"enum":[]})", "enum"},
      {R"({"anyOf":[]})", "list of schemas"},
      {R"({"type":[]})", "empty list"},
      {R"({"type":5})", "type is no text"},
      {R"({"type":"array","minItems":3,"maxItems":2})", "minItems is above"},
      {R"({"type":"string","maxLength":1e9})", "up to 2000"},
      {R"({"type":"array","minItems":-1})", "up to 2000"}};
  for (const auto& [schema, message] : cases) {
    try {
      Grammar::from_json_schema(schema);
      ADD_FAILURE() << schema;
    } catch (const FormatError& error) {
      EXPECT_THAT(error.what(), HasSubstr(message)) << schema;
    }
  }
  std::string deep = "{}";
  for (int i = 0; i < 100; ++i) deep = R"({"items":)" + deep + "}";
  EXPECT_THROW(Grammar::from_json_schema(deep), FormatError);
}

}  // namespace
}  // namespace lockstep::text
