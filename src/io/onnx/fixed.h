// What a graph computes of its weights alone: integers that become floats, matrices that are turned, the gates of an
// LSTM that an exporter puts together in the graph. Such nodes are found when a model is loaded; a run computes them
// once and keeps what others read of them, until a weight is another value. Graphs inside nodes have such nodes, too.
#pragma once

#include <string_view>

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

struct Program;

/// Whether an operator may answer otherwise in each run: it draws random numbers, or knows of training.
bool differs_from_run_to_run(std::string_view op);

/// Notes in every plan which nodes are fixed, what these read, and what others read of them.
void find_fixed_nodes(Program& program);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
