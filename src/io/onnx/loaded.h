// What stands behind an OnnxModel: the program, the module's cells for its initialisers, and the constants on the
// device that it ran on last.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <lockstep/io/onnx.h>
#include <lockstep/nn/module.h>

#include "io/onnx/plan.h"
#include "nn/replays.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

using ValueMap = std::map<std::string, Value, std::less<>>;

struct LoadedProgram {
  std::shared_ptr<Program> program;
  Device loaded_on;
  std::vector<std::unique_ptr<nn::Module>> modules;  ///< Below the model, parents first.
  std::vector<Cell> cells;                           ///< By constant; undefined for those that have none.
  mutable nn::Replays replays;
  mutable std::mutex mutex;                                ///< Guards what follows.
  mutable std::map<Device, std::vector<Value>> on_device;  ///< The constants without cells.
};

/// Makes the model's modules, parameters and buffers.
void register_cells(nn::Module& root, LoadedProgram& loaded);

/// The folder that a path leads into: what external data are confined to.
std::string folder_of(const std::string& path);
/// "float", "sequence of int64", ...
std::string type_text(const ModelValue& value);

/// Reads and plans a model. Throws FormatError; problems are listed in the program.
std::shared_ptr<Program> open_program(os::FileBytes file, bool map, const std::string& external_root = {});

class NodeObserver;

/// As OnnxModel::run, for values of any kind.
ValueMap run_program(const LoadedProgram& loaded, ValueMap inputs, Device device, bool training,
                     NodeObserver* observer = nullptr);

/// Where the model's parameters are; where it was loaded if it has none.
Device device_of(const LoadedProgram& loaded);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
