#include <lockstep/error.h>

#include "core/call.h"

namespace lockstep {
inline namespace v0 {

thread_local constinit const Call* current_call = nullptr;

CallScope::CallScope(const char* op, CallSite site) : call_{op, site}, before_(nullptr), current_(nullptr) {
  const Call*& current = current_call;
  if (current != nullptr) {
    if (current->op != nullptr || op == nullptr) return;
    call_ = {op, current->site, current->gradient};
  }
  before_ = current;
  current_ = &current;
  current = &call_;
}

CallScope::CallScope(CallSite site) : CallScope(nullptr, site) {}

CallScope::~CallScope() {
  if (current_ != nullptr) *current_ = before_;
}

const Call* CallScope::current() {
  return current_call;
}

// Out of line, so that the type information has one home and exceptions cross library borders.
Error::~Error() = default;
ShapeError::~ShapeError() = default;
DTypeError::~DTypeError() = default;
DeviceError::~DeviceError() = default;
IndexError::~IndexError() = default;
FormatError::~FormatError() = default;
IoError::~IoError() = default;
ValueError::~ValueError() = default;
BackendError::~BackendError() = default;
OutOfMemoryError::~OutOfMemoryError() = default;
LinalgError::~LinalgError() = default;

}  // namespace v0
}  // namespace lockstep
