// How far elementary functions are from the true value, by where their argument lies: for the plots of a report.
#pragma once

#include <string>
#include <vector>

#include <lockstep/device.h>

namespace lockstep {
inline namespace v0 {
namespace cli {

struct AccuracyCurve {
  std::string function;
  double least = 0;  ///< arguments, f32
  double most = 0;
  std::vector<double> errors;  ///< largest of each part of the interval, in units of the last place
  double largest = 0;
};

/// Of f32, on evenly spaced arguments, against the C library's double.
std::vector<AccuracyCurve> accuracy_curves(Device device);
constexpr int kAccuracySamples = 256;  ///< in each of the 64 parts of an interval

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
