#include "cli/case_file.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/io.h>

#include "core/checked.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

using Json = nlohmann::json;

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(io::load_safetensors(path)) {}

  const std::string& text(const char* key) const {
    const auto found = file_.metadata.find(key);
    if (found == file_.metadata.end()) fail(fmt::format("its metadata lack \"{}\"", key));
    return found->second;
  }
  Json parsed(const char* key, Json::value_t kind) const {
    const Json value = Json::parse(text(key), nullptr, false);
    if (value.type() != kind) fail(fmt::format("\"{}\" is not what it should be", key));
    return value;
  }
  Tensor tensor(const Json& name) const {
    const auto found = name.is_string() ? file_.tensors.find(name.get<std::string>()) : file_.tensors.end();
    if (found == file_.tensors.end()) fail(fmt::format("there is no tensor {}", name.dump()));
    return found->second;
  }
  std::vector<NamedTensor> tensors(const char* key) const {
    std::vector<NamedTensor> result;
    for (const Json& name : parsed(key, Json::value_t::array)) {
      const auto found = name.is_string() ? file_.tensors.find(name.get<std::string>()) : file_.tensors.end();
      if (found == file_.tensors.end()) fail(fmt::format("\"{}\" names a tensor that is not there", key));
      result.push_back({found->first, found->second});
    }
    return result;
  }
  double number(const char* key) const {
    const std::string& digits = text(key);
    char* end = nullptr;
    const double value = std::strtod(digits.c_str(), &end);
    if (digits.empty() || *end != '\0' || !(value >= 0)) fail(fmt::format("\"{}\" is no tolerance", key));
    return value;
  }
  [[noreturn]] void fail(const std::string& what) const { throw FormatError(fmt::format("{}: {}", path_, what)); }

 private:
  const std::string& path_;
  io::TensorFile file_;
};

}  // namespace

Case read_case(const std::string& path) {
  const Reader reader(path);
  if (reader.text("format") != "lockstep-case-1") {
    reader.fail(fmt::format("format {} is not lockstep-case-1", in_quotes(reader.text("format"))));
  }
  Case result;
  result.path = path;
  result.op = reader.text("op");
  result.attributes = reader.parsed("attrs", Json::value_t::object);
  result.inputs = reader.tensors("inputs");
  result.outputs = reader.tensors("outputs");
  result.tolerance = reader.number("atol_output");
  const Json cotangents = reader.parsed("cotangents", Json::value_t::object);
  for (const auto& [output, tensor] : cotangents.items()) {
    result.cotangents.push_back({output, reader.tensor(tensor)});
  }
  for (const Json& input : reader.parsed("grads", Json::value_t::array)) {
    if (!input.is_string()) reader.fail("\"grads\" is not what it should be");
    result.gradients.push_back({input.get<std::string>(), reader.tensor("grad." + input.get<std::string>())});
  }
  if (!result.gradients.empty()) result.gradient_tolerance = reader.number("atol_grad");
  return result;
}

Arguments::Arguments(const Case& from, Device device) : case_(from), input_used_(from.inputs.size(), false) {
  for (const NamedTensor& input : from.inputs) {
    Tensor tensor = input.tensor.to(device).named(input.name);
    const bool tracked = std::any_of(from.gradients.begin(), from.gradients.end(),
                                     [&](const NamedTensor& gradient) { return gradient.name == input.name; });
    inputs_.push_back(tracked ? requires_grad(tensor) : tensor);
  }
}

std::vector<Tensor> Arguments::tracked() const {
  std::vector<Tensor> result;
  for (const NamedTensor& gradient : case_.gradients) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (case_.inputs[i].name == gradient.name) result.push_back(inputs_[i]);
    }
  }
  if (result.size() != case_.gradients.size()) {
    throw FormatError(fmt::format("{}: there are gradients of what is no input", case_.path));
  }
  return result;
}

void Arguments::fail(const char* name, const char* expected) const {
  throw FormatError(fmt::format("{}: {} is not {}", case_.path, name, expected));
}

const Tensor& Arguments::operator[](std::size_t index) {
  if (index >= inputs_.size()) {
    throw FormatError(fmt::format("{}: {} takes more than {} inputs", case_.path, case_.op, inputs_.size()));
  }
  input_used_[index] = true;
  return inputs_[index];
}

std::optional<Tensor> Arguments::named(const std::string& name) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (case_.inputs[i].name == name) return (*this)[i];
  }
  return std::nullopt;
}

std::vector<Tensor> Arguments::all() {
  input_used_.assign(inputs_.size(), true);
  return inputs_;
}

const Json* Arguments::find(const char* name) {
  used_.emplace_back(name);
  const auto found = case_.attributes.find(name);
  return found == case_.attributes.end() || found->is_null() ? nullptr : &*found;
}

bool Arguments::has(const char* name) const {
  const auto found = case_.attributes.find(name);
  return found != case_.attributes.end() && !found->is_null();
}

bool Arguments::flag(const char* name, bool otherwise) {
  const Json* const value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) fail(name, "a bool");
  return value->get<bool>();
}

std::int64_t Arguments::integer(const char* name) {
  if (!has(name)) fail(name, "there");
  return integer(name, 0);
}

std::int64_t Arguments::integer(const char* name, std::int64_t otherwise) {
  const Json* const value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number_integer()) fail(name, "an integer");
  return value->get<std::int64_t>();
}

std::optional<double> Arguments::optional_real(const char* name) {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) fail(name, "a number");
  return value->get<double>();
}

double Arguments::real(const char* name, double otherwise) {
  return optional_real(name).value_or(otherwise);
}

std::string Arguments::text(const char* name, const std::string& otherwise) {
  const Json* const value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) fail(name, "a text");
  return value->get<std::string>();
}

std::optional<std::string> Arguments::optional_text(const char* name) {
  const Json* const value = find(name);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

std::optional<int> Arguments::optional_dim(const char* name) {
  if (!has(name)) {
    used_.emplace_back(name);
    return std::nullopt;
  }
  const std::int64_t dim = integer(name);
  if (dim < -kMaxRank || dim >= kMaxRank) fail(name, "a dimension");
  return static_cast<int>(dim);
}

Shape Arguments::sizes(const char* name, const Shape& otherwise) {
  const Json* const value = find(name);
  if (value == nullptr) return otherwise;
  if (value->is_number_integer()) return {value->get<std::int64_t>()};
  Shape result;
  if (!value->is_array() || value->size() > static_cast<std::size_t>(Shape::kCapacity))
    fail(name, "a list of integers");
  for (const Json& size : *value) {
    if (!size.is_number_integer()) fail(name, "a list of integers");
    result.push_back(size.get<std::int64_t>());
  }
  return result;
}

std::vector<std::vector<std::optional<std::int64_t>>> Arguments::ranges(const char* name) {
  constexpr const char* kExpected = "a list of lists of integers";
  const Json* const value = find(name);
  if (value == nullptr || !value->is_array()) fail(name, kExpected);
  std::vector<std::vector<std::optional<std::int64_t>>> result;
  for (const Json& range : *value) {
    if (!range.is_array()) fail(name, kExpected);
    auto& numbers = result.emplace_back();
    for (const Json& number : range) {
      if (!number.is_number_integer() && !number.is_null()) fail(name, kExpected);
      numbers.push_back(number.is_null() ? std::nullopt : std::optional(number.get<std::int64_t>()));
    }
  }
  return result;
}

std::vector<double> Arguments::reals(const char* name) {
  const Json* const value = find(name);
  if (value == nullptr) return {};
  if (value->is_number()) return {value->get<double>()};
  std::vector<double> result;
  if (!value->is_array()) fail(name, "a list of numbers");
  for (const Json& number : *value) {
    if (!number.is_number()) fail(name, "a list of numbers");
    result.push_back(number.get<double>());
  }
  return result;
}

void Arguments::check_all_used() const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!input_used_[i]) throw Unsupported(fmt::format("input {}", case_.inputs[i].name));
  }
  for (const auto& [name, value] : case_.attributes.items()) {
    const bool used = std::find(used_.begin(), used_.end(), name) != used_.end();
    if (!used && !value.is_null()) throw Unsupported(fmt::format("attribute {}", name));
  }
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
