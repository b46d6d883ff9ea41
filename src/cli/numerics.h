// The --numerics option.
#pragma once

#include <string>

#include <lockstep/autocast.h>
#include <lockstep/device.h>
#include <lockstep/numerics.h>

#include "cli/command_line.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

void add_numerics(Subcommand& command, std::string& numerics);

/// Those of that name. DeviceError that says what is missing where the device does not have them.
Numerics chosen_numerics(const std::string& name, Device device);
/// What products are cast to in these numerics: f32 for none.
DType multiplied_dtype(Numerics numerics);

/// While it lives, the thread's products are computed so.
class ChosenNumerics {
 public:
  explicit ChosenNumerics(Numerics numerics) : cast_(multiplied_dtype(numerics)), scope_(numerics) {}

 private:
  Autocast cast_;
  NumericsScope scope_;
};

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
