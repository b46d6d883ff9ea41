// ONNX models: files that any framework exports, as modules that run and train on every device.
#pragma once

#include <lockstep/error.h>
#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// A file that is valid, and asks for what this library does not do. Lists everything that is missing.
class LOCKSTEP_API UnsupportedError : public Error {
 public:
  using Error::Error;
  ~UnsupportedError() override;
};

}  // namespace io
}  // namespace v0
}  // namespace lockstep
