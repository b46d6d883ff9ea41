// A second device that computes every kernel again, from the same inputs, and compares the bits.
//
//   const ls::Shadow shadow(ls::Device::parse("ref"));
//   model.forward(x).eval();      // throws at the first element that differs
//
// For a program that cannot be edited: LOCKSTEP_SHADOW=ref in its environment; for the command: --shadow ref.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/device.h>
#include <lockstep/dtype.h>
#include <lockstep/error.h>
#include <lockstep/shape.h>

namespace lockstep {
inline namespace v0 {

/// A kernel whose results on two devices differ.
struct ShadowDifference {
  std::uint64_t kernel = 0;  ///< its number among those that were compared, from 1
  std::string ops;           ///< that were called, and their steps: "linear + gelu: contraction + add + gelu_erf"
  std::string module;        ///< whose parameter it reads, "layer1.0.conv1"; empty where it reads none
  std::string after_module;  ///< where it reads none: that of the last kernel that did
  std::string file;          ///< and line: where the op was called
  int line = 0;
  Device device;
  Device shadow;
  DType dtype = DType::f32;
  Shape shape;
  Shape index;        ///< of the first element that differs
  std::string value;  ///< of the device there, with its bits: "0.25 (0x3e800000)"
  std::string shadow_value;
  std::optional<std::uint64_t> ulps;  ///< floats between the two, counted; nothing for NaN and integers
  std::int64_t count = 0;             ///< elements that differ
  std::string case_file;  ///< the kernel with what it read, for `lockstep replay`; of the first difference alone

  /// Some lines for people.
  LOCKSTEP_API std::string to_string() const;
};

/// What a Shadow throws.
class LOCKSTEP_API ShadowError : public Error {
 public:
  explicit ShadowError(ShadowDifference difference);
  ~ShadowError() override;
  const ShadowDifference& difference() const { return *difference_; }

 private:
  std::shared_ptr<const ShadowDifference> difference_;
};

enum class ShadowPolicy : std::uint8_t {
  stop,    ///< throw ShadowError where the value is computed; later values can still be had without the shadow
  report,  ///< tell on standard error, and go on with the device's values
  follow,  ///< the same, and go on with the shadow's values: what differs later differs by itself
};

struct ShadowOptions {
  ShadowPolicy policy = ShadowPolicy::stop;
  /// Compare one kernel of so many, each with every `every`-th of its kind of the whole run.
  std::int64_t every = 1;
  /// Compare only kernels with one of these ops, by the names that users call; empty: all.
  std::vector<std::string> ops = {};
  /// Compute only so many neighbouring places of the outermost dimension of each kernel's rows, others each time; 0:
  /// all.
  std::int64_t rows = 0;
  /// Where the first difference's case is written, whatever the policy; empty: nowhere.
  std::string cases = "lockstep-cases";
  /// Called with each difference, instead of standard error.
  std::function<void(const ShadowDifference& difference)> on_difference = {};
};

/// While it lives, kernels of all other devices are run on `device`, too, in every thread. Bits are those without it
/// (unless it follows); fusion is, too. What the shadow device cannot hold (f64 on some GPUs) is passed over and
/// counted.
class LOCKSTEP_API Shadow {
 public:
  /// ValueError while another Shadow lives, or if an option is out of range; DeviceError if there is no such device. A
  /// kernel whose values its memory cannot hold is an OutOfMemoryError before the first kernel of its flush runs.
  explicit Shadow(Device device, ShadowOptions options = {}, CallSite site = {});
  ~Shadow();
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  /// Kernels so far.
  struct Counts {
    std::uint64_t compared = 0;
    std::uint64_t different = 0;
    std::uint64_t passed_over = 0;  ///< not chosen, or not held by the shadow device
  };
  Counts counts() const;
  /// The first hundred.
  std::vector<ShadowDifference> differences() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// "stop", "report", "follow". ValueError for other words.
LOCKSTEP_API ShadowPolicy parse_shadow_policy(const std::string& text);

}  // namespace v0
}  // namespace lockstep
