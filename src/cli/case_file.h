// A case: one call of an op with its inputs, attributes and expected outputs, in one safetensors file
// (docs/cli.md, "Case files").
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace cli {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

struct Case {
  std::string path;
  std::string op;
  nlohmann::json attributes;
  std::vector<NamedTensor> inputs;
  std::vector<NamedTensor> outputs;
  double tolerance = 0;
  /// Upstream gradients by output, and what they give for some of the inputs.
  std::vector<NamedTensor> cotangents;
  std::vector<NamedTensor> gradients;
  double gradient_tolerance = 0;
};

/// Throws IoError if the file cannot be read, FormatError if it is no case.
Case read_case(const std::string& path);

/// What a case asks for does not exist here.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The inputs and attributes of a case as an op takes them. Remembers what was asked for: an attribute that nobody
/// asked for is one that we would ignore, and so makes the case unsupported.
class Arguments {
 public:
  /// Inputs that the case has gradients of are tracked.
  Arguments(const Case& from, Device device);

  /// The tracked inputs, in the order of the case's gradients.
  std::vector<Tensor> tracked() const;

  std::size_t size() const { return inputs_.size(); }
  /// Throws FormatError if there is none at that position.
  const Tensor& operator[](std::size_t index);
  /// The input of that name.
  std::optional<Tensor> named(const std::string& name);
  std::vector<Tensor> all();

  /// Attributes; absent and null give the default. Throw FormatError for another type.
  bool flag(const char* name, bool otherwise = false);
  std::int64_t integer(const char* name);
  std::int64_t integer(const char* name, std::int64_t otherwise);
  double real(const char* name, double otherwise);
  std::optional<double> optional_real(const char* name);
  std::string text(const char* name, const std::string& otherwise);
  /// The attribute if it is a text.
  std::optional<std::string> optional_text(const char* name);
  std::optional<int> optional_dim(const char* name);
  /// An integer or a list of them.
  Shape sizes(const char* name, const Shape& otherwise);
  /// A list, with a list of integers for each dimension, any of which may be null.
  std::vector<std::vector<std::optional<std::int64_t>>> ranges(const char* name);
  /// A number or a list of them; absent: empty.
  std::vector<double> reals(const char* name);
  bool has(const char* name) const;

  /// Throws Unsupported if an input or attribute was not asked for.
  void check_all_used() const;

 private:
  const nlohmann::json* find(const char* name);
  [[noreturn]] void fail(const char* name, const char* expected) const;

  const Case& case_;
  std::vector<Tensor> inputs_;
  std::vector<bool> input_used_;
  std::vector<std::string> used_;
};

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
