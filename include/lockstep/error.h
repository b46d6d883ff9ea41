// The exceptions of the library, and the call that their messages name.
#pragma once

#include <concepts>
#include <stdexcept>
#include <string>

#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {

class Operand;

/// A place in the caller's source. Default-constructed as a default argument it names the caller.
/// (Not std::source_location: clang 14 with libstdc++ lacks it.)
struct CallSite {
  const char* file;
  int line;
  /// A template so that the integer 0 is no file: `x.view(2, 0)` must not take its second size for a place.
  template <std::same_as<const char*> File = const char*>
  constexpr CallSite(File file_name = __builtin_FILE(), int line_number = __builtin_LINE())
      : file(file_name), line(line_number) {}
};

/// What a thread is doing for its caller.
struct Call {
  const char* op;         ///< null: named by what is called next
  CallSite site;          ///< the caller's line
  bool gradient = false;  ///< whether it is the gradient of that op that is computed
};

/// A call of the library, as errors name it and values remember it: the op, and the caller's line. Every function that
/// a user calls opens one; within it the outermost wins, so that an error in a layer made of many ops names the layer
/// and the line that called it, not an op on a line of the layer's. check and fail (lockstep/check.h) read it.
///
///   ls::Tensor forward(const ls::Operand& x) const override {
///     const ls::CallScope call("gated", x);
///     ls::check<ls::ShapeError>(x.tensor().rank() == 2, "input must be a matrix", {{"input", x}});
///     return ls::sigmoid(gate(x)) * x;
///   }
///
/// Each thread has its own. `op` must live for ever, as literals do: values keep it.
class LOCKSTEP_API CallScope {
 public:
  CallScope(const char* op, CallSite site);
  /// At the place that an operand carries.
  CallScope(const char* op, const Operand& operand);
  /// Only the line: errors name the ops and layers that are called within. For what arranges layers.
  explicit CallScope(CallSite site);
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  /// The call that this thread is in; null outside of all.
  static const Call* current();

 private:
  Call call_;
  const Call* before_;
  const Call** current_;  ///< null: an outer scope holds
};

/// Base of everything that the library throws on purpose. what() tells the whole story: the op, every operand
/// with dtype, shape and device, what was expected, the fix, and the caller's file and line.
class LOCKSTEP_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~Error() override;
};

#define LOCKSTEP_DEFINE_ERROR(Name)      \
  class LOCKSTEP_API Name : public Error { \
   public:                               \
    using Error::Error;                  \
    ~Name() override;                    \
  }

LOCKSTEP_DEFINE_ERROR(ShapeError);         ///< Sizes, ranks or dimensions that do not fit.
LOCKSTEP_DEFINE_ERROR(DTypeError);         ///< An element type that an op does not take.
LOCKSTEP_DEFINE_ERROR(DeviceError);        ///< Operands on different devices, or a device that is not there.
LOCKSTEP_DEFINE_ERROR(IndexError);         ///< An index outside its dimension.
LOCKSTEP_DEFINE_ERROR(FormatError);        ///< A file that is not what it should be.
LOCKSTEP_DEFINE_ERROR(IoError);            ///< A file that cannot be opened, read or written.
LOCKSTEP_DEFINE_ERROR(ValueError);         ///< An argument outside its range.
LOCKSTEP_DEFINE_ERROR(LinalgError);        ///< A matrix without an answer, e.g. a singular one. PyTorch: linalg.LinAlgError.
LOCKSTEP_DEFINE_ERROR(BackendError);       ///< A device that failed.
LOCKSTEP_DEFINE_ERROR(OutOfMemoryError);   ///< Memory of a device is exhausted.

#undef LOCKSTEP_DEFINE_ERROR

}  // namespace v0
}  // namespace lockstep
