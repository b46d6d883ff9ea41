// ONNX models: files that any framework exports, as modules that run and train on every device.
//
//   auto model = ls::io::load_onnx("model.onnx", {.device = ls::Device::best()});
//   auto outputs = model->run({{"input", x}});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/error.h>
#include <lockstep/export.h>
#include <lockstep/io/tensor_file.h>
#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// A file that is valid, and asks for what this library does not do. Lists everything that is missing.
class LOCKSTEP_API UnsupportedError : public Error {
 public:
  using Error::Error;
  ~UnsupportedError() override;
};

/// A size that a model states for an input or output: a number, a name that stands for one, or neither.
struct OnnxSize {
  std::optional<std::int64_t> size;
  std::string symbol;
};

/// What a model says of an input or output.
struct OnnxValue {
  std::string name;
  std::string type;                            ///< "float", "int64", "sequence of float", ...: ONNX's name.
  std::optional<DType> dtype;                  ///< None for what is no tensor of a dtype that we have.
  std::optional<std::vector<OnnxSize>> shape;  ///< None if the model does not say.
  bool required = true;                        ///< False for an input that an initialiser stands for.
};

struct OnnxOptions {
  Device device = default_device();
  /// Compute at load what constants determine. Changes no result.
  bool fold = true;
  /// As in LoadOptions.
  bool map = true;
  /// External data may be symbolic links to files below this folder, as in caches of hubs. Empty: they may be no links.
  std::string external_root = {};
};

namespace onnx {
struct LoadedProgram;
}  // namespace onnx

/// An ONNX model. Its parameters are the float initialisers that feed weights, biases and scales, its buffers the other
/// tensors, under the exporter's names split at "." and "/"; small integers and up to eight numbers that are no weights
/// belong to the program. In evaluation form when it is loaded; train() does not change what its nodes compute.
class LOCKSTEP_API OnnxModel final : public nn::Layer {
 public:
  explicit OnnxModel(std::unique_ptr<onnx::LoadedProgram> program);
  ~OnnxModel() override;

  /// The outputs by name, of inputs by name on the device of the parameters. An output that is a sequence appears as
  /// NAME.0, NAME.1, ... ValueError for an input that is missing or not the model's, DTypeError and ShapeError for one
  /// that is not as the model says; sizes of one name must be equal everywhere.
  TensorMap run(const TensorMap& inputs, CallSite site = {}) const;
  /// The first output of a model with one input. ValueError if it needs more.
  Tensor forward(const Operand& x) const override;

  std::vector<OnnxValue> inputs() const;
  std::vector<OnnxValue> outputs() const;
  Device device() const;

  const onnx::LoadedProgram& program() const { return *program_; }

 private:
  TensorMap run_nodes(const TensorMap& inputs) const;

  std::unique_ptr<onnx::LoadedProgram> program_;
};

/// Loads a model of IR version 3 to 14. Its external data must lie in its folder. Throws IoError, FormatError for a file
/// that is malformed, UnsupportedError listing every node that cannot run here (operator, version, count, reason).
LOCKSTEP_API std::unique_ptr<OnnxModel> load_onnx(const std::string& path, OnnxOptions options = {});

/// The other files, by their names from its folder on, in which a model has tensors. IoError, FormatError.
LOCKSTEP_API std::vector<std::string> onnx_external_files(const std::string& path);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
