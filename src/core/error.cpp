#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {

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

}  // namespace v0
}  // namespace lockstep
