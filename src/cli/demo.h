// The parts of `lockstep demo`: a trained network on every device, a network that is trained here, and the page that
// shows both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/device.h>
#include <lockstep/io/image.h>
#include <lockstep/train.h>
#include <lockstep/work.h>

#include "cli/classifier.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

// --- work -----------------------------------------------------------------------------------------------------------

/// Counts what is run from its beginning on, on a device and on the processor, which prepares inputs. The same number
/// for every device.
class WorkCounter {
 public:
  explicit WorkCounter(Device device) : device_(device), before_(now()) {}
  WorkStatistics count() const {
    const WorkStatistics after = now();
    return {after.kernels - before_.kernels, after.bytes - before_.bytes};
  }

 private:
  WorkStatistics now() const {
    WorkStatistics work = work_statistics(device_);
    if (device_ != Device{}) {
      const WorkStatistics processor = work_statistics();
      work.kernels += processor.kernels;
      work.bytes += processor.bytes;
    }
    return work;
  }

  Device device_;
  WorkStatistics before_;
};

// --- pictures -------------------------------------------------------------------------------------------------------

struct Picture {
  std::string name;
  std::string truth;  ///< pictures are named after their class: star.png, star_2.png
  io::Image image;
};

struct PictureResult {
  Device device;
  std::vector<Prediction> predictions;
  std::size_t right = 0;
  std::uint64_t hash = 0;
  WorkStatistics work;
  double seconds = 0;
};

struct PictureDemo {
  std::vector<std::string> labels;
  std::vector<Picture> pictures;
  std::vector<PictureResult> results;

  bool equal() const;
};

/// Classifies the shipped pictures on every device.
PictureDemo classify_pictures(const std::vector<Device>& devices);

// --- training -------------------------------------------------------------------------------------------------------

struct TrainingOptions {
  std::int64_t steps = 0;  ///< 0: until the end
  bool progress = true;
};

/// A digit that training did not see.
struct Digit {
  io::Image image;
  std::size_t truth = 0;
  std::size_t answer = 0;
  float probability = 0;
};

struct TrainingDemo {
  std::int64_t parameters = 0;
  std::int64_t examples = 0;
  train::FitResult fit;
  std::vector<Digit> digits;  ///< some of the test's, and those that it has wrong first
  std::uint64_t weights_hash = 0;
};

/// Trains a small convolutional network on drawn digits, on the CPU.
TrainingDemo train_on_digits(const TrainingOptions& options);

inline constexpr std::int64_t kComparedSteps = 20;
inline constexpr std::int64_t kComparedBatch = 8;

/// The first steps of such a training on one device.
struct ComparedTraining {
  Device device;
  float loss = 0;  ///< of the last step
  std::uint64_t losses_hash = 0;
  std::uint64_t weights_hash = 0;
  WorkStatistics work;
  double seconds = 0;

  bool same_as(const ComparedTraining& other) const {
    return losses_hash == other.losses_hash && weights_hash == other.weights_hash;
  }
};
ComparedTraining first_steps_on(Device device);

// --- report ---------------------------------------------------------------------------------------------------------

std::string duration_text(double seconds);
/// The bits of a float in hexadecimal.
std::string bits_text(float value);
/// A page that needs no other file.
std::string demo_report(const PictureDemo& pictures, const TrainingDemo* training,
                        const std::vector<ComparedTraining>& compared);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
