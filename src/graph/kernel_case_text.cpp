// Kernel cases as JSON and back: the members of primitives by their lists of fields (graph/primitive.h), in their
// order.
#include <array>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>
#include <lockstep/version.h>

#include "core/checked.h"
#include "core/os.h"
#include "graph/kernel_case.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

using CaseJson = nlohmann::ordered_json;

// ---- writing

CaseJson json_of(const Shape& shape) {
  return std::vector<std::int64_t>(shape.begin(), shape.end());
}
CaseJson json_of(const View& view) {
  CaseJson bounds = CaseJson::array();
  for (const Bound& bound : view.bounds) {
    bounds.push_back({{"offset", bound.offset},
                      {"m", json_of(bound.m)},
                      {"lo", bound.lo},
                      {"hi", bound.hi},
                      {"step", bound.step},
                      {"stride", bound.stride}});
  }
  CaseJson json{{"shape", json_of(view.shape)}, {"strides", json_of(view.strides)}, {"offset", view.offset}};
  if (!bounds.empty()) {
    json["bounds"] = bounds;
    json["fill"] = view.fill;
  }
  return json;
}
CaseJson json_of(const Scalar& scalar) {
  return scalar.bits;
}
CaseJson json_of(Op op) {
  return info_of(op).name;
}
template <std::size_t n> CaseJson json_of(const std::array<Scalar, n>& scalars) {
  CaseJson json = CaseJson::array();
  for (const Scalar& scalar : scalars) json.push_back(scalar.bits);
  return json;
}
template <typename T>
requires(std::is_integral_v<T>) CaseJson json_of(T number) {
  return number;
}
template <typename T>
requires(std::is_enum_v<T> && !std::is_same_v<T, Op>) CaseJson json_of(T word) {
  return static_cast<int>(word);
}

// What a primitive's struct is called in files.
constexpr const char* kPrimitiveNames[] = {"data", "full",   "iota",     "random", "view",    "elementwise",
                                           "cast", "reduce", "contract", "gather", "scatter", "scan",
                                           "sort", "update", "fourier",  "attend", "recur"};
static_assert(std::size(kPrimitiveNames) == std::variant_size_v<Primitive>);

// ---- reading

class CaseReader {
 public:
  explicit CaseReader(std::string name) : name_(std::move(name)) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw FormatError(place_.empty() ? fmt::format("{}: {}", name_, what)
                                     : fmt::format("{}: {}: {}", name_, place_, what));
  }
  void at(std::string place) { place_ = std::move(place); }

  const CaseJson& field(const CaseJson& json, const char* name) const {
    const auto found = json.is_object() ? json.find(name) : json.end();
    if (!json.is_object() || found == json.end()) refuse(fmt::format("\"{}\" is missing", name));
    return *found;
  }
  const CaseJson& array(const CaseJson& json, const char* name, std::size_t most) const {
    const CaseJson& found = field(json, name);
    if (!found.is_array() || found.size() > most) refuse(fmt::format("\"{}\" is no list, or too long", name));
    return found;
  }
  std::string text(const CaseJson& json, const char* name) const {
    const CaseJson& found = field(json, name);
    if (!found.is_string()) refuse(fmt::format("\"{}\" is no text", name));
    return found.get<std::string>();
  }
  std::int64_t number(const CaseJson& json) const {
    constexpr std::int64_t kMost = std::int64_t{1} << 48;  // sums and products of a few do not overflow
    if (!json.is_number_integer() || (json.is_number_unsigned() && json.get<std::uint64_t>() > kMost) ||
        json.get<std::int64_t>() > kMost || json.get<std::int64_t>() < -kMost) {
      refuse("a number is no whole number, or too large");
    }
    return json.get<std::int64_t>();
  }
  std::uint64_t bits(const CaseJson& json) const {
    if (!json.is_number_integer()) refuse("the bits of a number are no whole number");
    return json.is_number_unsigned() ? json.get<std::uint64_t>() : static_cast<std::uint64_t>(json.get<std::int64_t>());
  }
  DType dtype(const CaseJson& json, const char* name) const {
    try {
      return parse_dtype(text(json, name));
    } catch (const DTypeError&) {
      refuse(fmt::format("\"{}\" is no dtype of this version", name));
    }
  }

  void read(const CaseJson& json, Shape& shape) const {
    if (!json.is_array() || json.size() > static_cast<std::size_t>(kMaxRank)) refuse("a shape is no list of sizes");
    for (const CaseJson& size : json) shape.push_back(number(size));
  }
  void read(const CaseJson& json, View& view) const {
    read(field(json, "shape"), view.shape);
    read(field(json, "strides"), view.strides);
    view.offset = number(field(json, "offset"));
    if (!json.contains("bounds")) return;
    view.fill = bits(field(json, "fill"));
    for (const CaseJson& each : array(json, "bounds", 64)) {
      Bound& bound = view.bounds.emplace_back();
      bound.offset = number(field(each, "offset"));
      read(field(each, "m"), bound.m);
      bound.lo = number(field(each, "lo"));
      bound.hi = number(field(each, "hi"));
      bound.step = number(field(each, "step"));
      bound.stride = number(field(each, "stride"));
    }
  }
  void read(const CaseJson& json, Scalar& scalar) const { scalar.bits = bits(json); }
  template <std::size_t n> void read(const CaseJson& json, std::array<Scalar, n>& scalars) const {
    if (!json.is_array() || json.size() != n) refuse("scalars are no list of their number");
    for (std::size_t i = 0; i < n; ++i) read(json[i], scalars[i]);
  }
  void read(const CaseJson& json, Op& op) const {
    for (int i = 0; i < kOpCount; ++i) {
      op = static_cast<Op>(i);
      if (json == info_of(op).name) return;
    }
    refuse("an elementwise op is none of this version");
  }
  void read(const CaseJson& json, bool& flag) const {
    if (!json.is_boolean()) refuse("a flag is neither true nor false");
    flag = json.get<bool>();
  }
  template <typename T>
  requires(std::is_integral_v<T>) void read(const CaseJson& json, T& value) const {
    if constexpr (sizeof(T) == 8 && std::is_unsigned_v<T>) {
      value = bits(json);
    } else {
      const std::int64_t wide = number(json);
      if (static_cast<std::int64_t>(static_cast<T>(wide)) != wide) refuse("a number is out of range");
      value = static_cast<T>(wide);
    }
  }
  template <typename T>
  requires(std::is_enum_v<T>) void read(const CaseJson& json, T& word) const {
    const std::int64_t value = number(json);
    if (value < 0 || value > static_cast<int>(last(word))) refuse("a choice is none of this version");
    word = static_cast<T>(value);
  }

 private:
  static ReduceOp last(ReduceOp) { return ReduceOp::dot; }
  static ScatterOp last(ScatterOp) { return ScatterOp::min; }
  static ScanOp last(ScanOp) { return ScanOp::argmin; }
  static Numerics last(Numerics) { return Numerics::q8; }
  static FourierKind last(FourierKind) { return FourierKind::real_inverse; }
  static RecurrentCell last(RecurrentCell) { return RecurrentCell::int8_lstm; }
  static Recur::Direction last(Recur::Direction) { return Recur::Direction::both; }
  static Failure last(Failure) { return Failure::not_positive_definite; }
  static Random::Word last(Random::Word) { return Random::Word::odd; }

  std::string name_;
  std::string place_;
};

template <std::size_t i = 0> Primitive made_primitive(std::size_t index) {
  if constexpr (i < std::variant_size_v<Primitive>) {
    return index == i ? Primitive(std::in_place_index<i>) : made_primitive<i + 1>(index);
  } else {
    return Data{};
  }
}

Primitive read_primitive(const CaseReader& reader, const CaseJson& json) {
  const std::string name = reader.text(json, "op");
  const auto* const found = std::find(std::begin(kPrimitiveNames), std::end(kPrimitiveNames), name);
  if (found == std::end(kPrimitiveNames)) reader.refuse(fmt::format("{} is no op of this version", in_quotes(name)));
  Primitive primitive = made_primitive(static_cast<std::size_t>(found - kPrimitiveNames));
  visit_primitive(
      [&]<typename P>(P& alternative) {
        constexpr std::size_t count = std::tuple_size_v<std::remove_const_t<decltype(P::fields)>>;
        const CaseJson none = CaseJson::array();
        const CaseJson& fields = count == 0 ? none : reader.array(json, "fields", count);
        if (fields.size() != count) reader.refuse("\"fields\" are not those of the op");
        [[maybe_unused]] std::size_t at = 0;
        std::apply([&](const auto&... field) { (reader.read(fields[at++], alternative.*field.member), ...); },
                   P::fields);
      },
      primitive);
  return primitive;
}

// The encoding of that name.
Encoding read_encoding(const CaseReader& reader, const std::string& name) {
  if (name == name_of(Encoding::dense)) return Encoding::dense;
#define ENCODING(row, ...) \
  if (name == name_of(Encoding::row)) return Encoding::row;
#define FLOATS(row, ...) ENCODING(row)
#define NARROW(row, ...) ENCODING(row)
#include <lockstep/encodings.def>
#undef ENCODING
  reader.refuse(fmt::format("{} is no encoding of this version", in_quotes(name)));
}

// ---- the file

const char* file_type_of(DType dtype) {
  switch (dtype) {
#define LOCKSTEP_DTYPE(name, text, element, bytes, kind, use, word, compute, kernel, digits, largest, subnormals, \
                       stored, torch, torch_storage, safetensors, ...)                                            \
  case DType::name:                                                                                               \
    return safetensors;
#include <lockstep/dtypes.def>
#undef LOCKSTEP_DTYPE
  }
  return "U8";
}

struct FileTensor {
  std::string name;
  const Bytes* bytes;
  const char* type;
  std::vector<std::int64_t> shape;
  std::size_t element;
};

std::vector<FileTensor> tensors_of(const KernelCase& work) {
  std::vector<FileTensor> tensors;
  const auto add = [&](const char* what, std::size_t i, const KernelCase::Value& value, const Bytes& bytes) {
    const bool dense = value.encoding == Encoding::dense;
    tensors.push_back({fmt::format("{}.{}", what, i), &bytes, dense ? file_type_of(value.dtype) : "U8",
                       dense ? std::vector<std::int64_t>(value.shape.begin(), value.shape.end())
                             : std::vector<std::int64_t>{static_cast<std::int64_t>(bytes.size())},
                       dense ? size_of(value.dtype) : 1});
  };
  for (std::size_t i = 0; i < work.values.size(); ++i) {
    if (work.is_given(i)) add("value", i, work.values[i], work.values[i].data);
  }
  for (std::size_t i = 0; i < work.results.size(); ++i) {
    const KernelCase::Result& result = work.results[i];
    const std::size_t wanted =
        static_cast<std::size_t>(work.values[result.value].shape.numel()) * size_of(work.values[result.value].dtype);
    if (result.expected.size() == wanted) add("expected", i, work.values[result.value], result.expected);
    if (wanted > 0 && result.actual.size() == wanted) add("actual", i, work.values[result.value], result.actual);
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.element > b.element; });
  return tensors;
}

}  // namespace

std::string case_text(const KernelCase& work) {
  CaseJson values = CaseJson::array();
  for (const KernelCase::Value& value : work.values) {
    CaseJson json{
        {"op", kPrimitiveNames[value.op.index()]}, {"shape", json_of(value.shape)}, {"dtype", name_of(value.dtype)}};
    if (value.encoding != Encoding::dense) json["encoding"] = name_of(value.encoding);
    visit_primitive(
        [&](const auto& alternative) {
          CaseJson fields = CaseJson::array();
          for_each_field(alternative, [&](const auto&, const auto& member) { fields.push_back(json_of(member)); });
          if (!fields.empty()) json["fields"] = fields;
        },
        value.op);
    CaseJson operands = CaseJson::array();
    for (const KernelCase::Operand& operand : value.operands) {
      CaseJson one{{"value", operand.value}};
      if (operand.view) one["view"] = json_of(*operand.view);
      operands.push_back(one);
    }
    if (!operands.empty()) json["operands"] = operands;
    values.push_back(json);
  }
  CaseJson results = CaseJson::array();
  for (const KernelCase::Result& result : work.results) results.push_back(result.value);
  return CaseJson{{"values", values}, {"results", results}}.dump();
}

void write_case(const std::string& file, const KernelCase& work) {
  const std::vector<FileTensor> tensors = tensors_of(work);
  CaseJson texts{{"format", kCaseFormat}, {"version", kVersion}, {"work", case_text(work)}};
  for (const auto& [key, text] : work.story) texts[key] = text;
  CaseJson header{{"__metadata__", texts}};
  std::size_t offset = 0;
  for (const FileTensor& tensor : tensors) {
    header[tensor.name] = {
        {"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.bytes->size()}}};
    offset += tensor.bytes->size();
  }
  std::string text = header.dump(-1, ' ', false, CaseJson::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  std::string head(sizeof(length), '\0');
  std::memcpy(head.data(), &length, sizeof(length));
  os::AtomicFile out(file);
  out.write(head);
  out.write(text);
  for (const FileTensor& tensor : tensors) out.write(lockstep::text_of(*tensor.bytes));
  out.commit();
}

KernelCase parse_case(const std::map<std::string, std::string>& texts,
                      const std::function<std::optional<Bytes>(const std::string& tensor)>& bytes,
                      const std::string& name) {
  constexpr std::size_t kMostValues = 4096;
  CaseReader reader(name);
  const auto format = texts.find("format");
  if (format == texts.end() || format->second != kCaseFormat) {
    reader.refuse(fmt::format("\"format\" is not {}: another version, or no case of a kernel", kCaseFormat));
  }
  const auto found = texts.find("work");
  if (found == texts.end()) reader.refuse("its metadata lack \"work\"");
  const CaseJson json = CaseJson::parse(found->second, nullptr, false);
  if (!json.is_object()) reader.refuse("\"work\" is no JSON object");
  KernelCase work;
  for (const CaseJson& each : reader.array(json, "values", kMostValues)) {
    const std::size_t number = work.values.size();
    reader.at(fmt::format("value {}", number));
    KernelCase::Value value{.op = read_primitive(reader, each),
                            .shape = {},
                            .dtype = reader.dtype(each, "dtype"),
                            .encoding = Encoding::dense,
                            .operands = {},
                            .data = {}};
    reader.read(reader.field(each, "shape"), value.shape);
    if (each.contains("encoding")) value.encoding = read_encoding(reader, reader.text(each, "encoding"));
    if (each.contains("operands")) {
      for (const CaseJson& one : reader.array(each, "operands", 3)) {
        KernelCase::Operand& operand = value.operands.emplace_back();
        operand.value =
            static_cast<int>(std::min<std::int64_t>(reader.number(reader.field(one, "value")), kMostValues));
        if (one.contains("view")) reader.read(one["view"], operand.view.emplace());
      }
    }
    if (std::holds_alternative<Data>(value.op)) {
      std::optional<Bytes> data = bytes(fmt::format("value.{}", number));
      if (!data) reader.refuse(fmt::format("there is no tensor value.{}", number));
      value.data = std::move(*data);
    }
    work.values.push_back(std::move(value));
  }
  reader.at("");
  for (const CaseJson& each : reader.array(json, "results", kMostValues)) {
    const std::int64_t value = reader.number(each);
    if (value < 0 || value >= static_cast<std::int64_t>(work.values.size()))
      reader.refuse("\"results\" name a value that is not there");
    const std::size_t number = work.results.size();
    work.results.push_back({static_cast<std::size_t>(value),
                            bytes(fmt::format("expected.{}", number)).value_or(Bytes()),
                            bytes(fmt::format("actual.{}", number)).value_or(Bytes())});
  }
  for (const auto& [key, text] : texts) {
    if (key != "format" && key != "version" && key != "work") work.story[key] = text;
  }
  const std::string mistake = mistake_in(work);
  if (!mistake.empty()) reader.refuse(mistake);
  return work;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
