#include "cli/numerics.h"

#include <fmt/format.h>

#include <lockstep/error.h>

#include "graph/numerics.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

void add_numerics(Subcommand& command, std::string& numerics) {
  command
      .option("--numerics", numerics,
              "exact, or products of bf16 casts, parameters in f32: blocked, in block fixed point, or fast, by "
              "cuBLASLt and cuDNN (docs/numerics.md)")
      .one_of({name_of(Numerics::exact), name_of(Numerics::blocked), name_of(Numerics::fast)})
      .show_default();
}

Numerics chosen_numerics(const std::string& name, Device device) {
  const Numerics numerics = numerics_from_name(name);
  const std::string missing = graph::missing_for(numerics, device);
  if (!missing.empty()) {
    throw DeviceError(
        fmt::format("--numerics fast on {}: {}\n  fix: --numerics blocked or exact, which every device has",
                    device.to_string(), missing));
  }
  return numerics;
}

DType multiplied_dtype(Numerics numerics) {
  return numerics == Numerics::exact ? DType::f32 : DType::bf16;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
