#include "text/jinja/failure.h"

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace text::jinja {

void fail(const std::string& what) {
  throw FormatError(std::string(kFailed) + what);
}

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
