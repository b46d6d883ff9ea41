// Models as ONNX files, for other runtimes and for load_onnx.
//
//   ls::io::save_onnx("net.onnx", net, {x}, {.opset = 17, .dynamic = {{0, 0, "batch"}}});
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/nn/module.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// A size of an input that callers of the file may choose.
struct OnnxDynamicSize {
  std::size_t input = 0;  ///< Number of the input.
  int dim = 0;
  std::string symbol;  ///< Sizes of one name are equal, in the example too: "batch".
  /// What the size is a multiple of, plus that of the example: pictures for a network that halves five times have 32.
  std::int64_t step = 1;
};

struct OnnxExportOptions {
  int opset = 17;  ///< 17 or 23. RMSNormalization, and GELU without com.microsoft, need 23.
  std::vector<OnnxDynamicSize> dynamic = {};
  std::vector<std::string> input_names = {};   ///< Absent: "input", or "input_0", "input_1", ...
  std::vector<std::string> output_names = {};  ///< Absent: "output", or "output_0", "output_1", ...
  /// Weights of more bytes than this lie in a file beside the model's, FILE.data.
  std::uint64_t external_data_above = std::uint64_t{1} << 30;
};

using OnnxFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Runs `function` on the examples once (three times more for each dynamic size) and writes what it computed with the
/// parameters and buffers of `model` under their names. Loaded again by load_onnx, the file gives the same bits. Values
/// that depend on neither inputs nor parameters become constants.
/// Throws UnsupportedError naming every op without a counterpart in the opset and the module it stands behind;
/// ValueError for a model in training, an unknown opset, names that do not fit or an input that nothing reads, what
/// reads elements on the host, and a size that cannot be dynamic; IoError. No file is touched before all is known.
LOCKSTEP_API void save_onnx(const std::string& path, const nn::Module& model, const OnnxFunction& function,
                            const std::vector<Tensor>& examples, const OnnxExportOptions& options = {});
/// The same for a model of one input and one output: its forward().  PyTorch: torch.onnx.export.
LOCKSTEP_API void save_onnx(const std::string& path, const nn::Layer& model, const std::vector<Tensor>& examples,
                            const OnnxExportOptions& options = {});

}  // namespace io
}  // namespace v0
}  // namespace lockstep
