// The inputs of an ONNX model from the command line: `--input NAME=FILE` of arrays, pictures and texts of numbers; and
// random ones by the shapes that the model states.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/io/onnx.h>

namespace lockstep {
inline namespace v0 {
namespace cli {

/// The inputs that the words name, on the model's device. Throws UsageError for a word or a name that is none, or is
/// there twice; what the readers throw for files.
io::TensorMap given_inputs(const io::OnnxModel& model, const std::vector<std::string>& words);

/// Throws UsageError unless every input that the model requires is there; it lists what the model takes.
void require_all(const io::OnnxModel& model, const io::TensorMap& inputs);

/// Adds the required inputs that are missing: normal floats, integers from 0 to 3 and true, of the sizes that the model
/// states. `sizes` are words NAME=N, for sizes that have a name there, "?" for those without; 1 otherwise. Throws
/// UsageError for a word that is none, or names no size of the model, UnsupportedError for an input that is no tensor.
void add_random_inputs(const io::OnnxModel& model, const std::vector<std::string>& sizes, std::uint64_t seed,
                       io::TensorMap& inputs);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
