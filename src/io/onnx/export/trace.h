// A run of a function, written down as a graph of ONNX.
#pragma once

#include <string>
#include <vector>

#include <lockstep/io/onnx_export.h>

#include "io/onnx/export/exported_graph.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

struct TraceRequest {
  const std::string& path;  ///< for errors
  const nn::Module& model;
  const OnnxFunction& function;
  const OnnxExportOptions& options;
};

/// Throws what save_onnx throws.
ExportedGraph trace(const TraceRequest& request, const std::vector<Tensor>& inputs);

/// The graph whose sizes in `graphs[0]` follow the dynamic sizes of the options: graphs[1 + 2i] and graphs[2 + 2i] are
/// traces in which the size of the i-th symbol (in the order of `symbols`) is `steps[i]` and three times that larger;
/// of several symbols there is one more, in which all are larger by a step. ValueError for a graph that does not stay
/// the same, naming the call.
ExportedGraph with_dynamic_sizes(const TraceRequest& request, std::vector<ExportedGraph> graphs,
                                 const std::vector<std::string>& symbols, const std::vector<std::int64_t>& steps);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
