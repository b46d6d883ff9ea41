// Exports that are loaded again and compared, and kept in LOCKSTEP_ONNX_EXPORTS=FOLDER, whose files
// tools/check_onnx_export.py compares with ONNX Runtime.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>

#include "support/files.h"
#include "support/noise.h"
#include "support/tensors.h"

namespace lockstep::io {

// The folder that keeps the exports, or the one that vanishes.
inline std::string export_path(const test::TemporaryFolder& folder, const std::string& name) {
  const char* const kept = std::getenv("LOCKSTEP_ONNX_EXPORTS");
  return kept == nullptr ? folder.path(name) : (std::filesystem::path(kept) / name).string();
}

struct Exported {
  std::vector<Tensor> expected;
  std::unique_ptr<OnnxModel> model;
};

// Writes, keeps what a check by other means needs, and compares every output to the bit.
inline Exported export_and_compare(const std::string& name, const nn::Module& module, const OnnxFunction& function,
                                   const std::vector<Tensor>& inputs, const OnnxExportOptions& options = {}) {
  const test::TemporaryFolder folder;
  const std::string path = export_path(folder, name + ".onnx");
  save_onnx(path, module, function, inputs, options);
  const NoGrad no_grad;
  Exported result{.expected = function(inputs), .model = load_onnx(path)};
  TensorMap given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    given[result.model->inputs()[i].name] = inputs[i];
    if (std::getenv("LOCKSTEP_ONNX_EXPORTS") != nullptr)
      save_npy(export_path(folder, name + ".input_" + std::to_string(i) + ".npy"), inputs[i]);
  }
  const TensorMap outputs = result.model->run(given);
  EXPECT_EQ(outputs.size(), result.expected.size());
  for (std::size_t i = 0; i < result.expected.size(); ++i) {
    const Tensor& output = outputs.at(result.model->outputs()[i].name);
    EXPECT_BITS_EQ(output, result.expected[i]) << name << ", output " << i;
    if (std::getenv("LOCKSTEP_ONNX_EXPORTS") != nullptr)
      save_npy(export_path(folder, name + ".output_" + std::to_string(i) + ".npy"), result.expected[i]);
  }
  return result;
}

inline OnnxFunction forward_of(const nn::Layer& model) {
  return [&model](const std::vector<Tensor>& inputs) { return std::vector<Tensor>{model.forward(inputs[0])}; };
}

inline void check_layer(const std::string& name, nn::Layer& model, const Shape& shape,
                        const OnnxExportOptions& options = {}) {
  SCOPED_TRACE(name);
  test::set_noise_weights(model);
  export_and_compare(name, model, forward_of(model), {test::noise_picture(shape)}, options);
}

inline const OnnxExportOptions kAnyBatch{.dynamic = {{0, 0, "batch"}}};

}  // namespace lockstep::io
