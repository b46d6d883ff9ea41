// A fault: one bit of one value that a kernel makes is flipped before anybody reads it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "graph/kernel_watch.h"

namespace lockstep::test {

/// Counts the values that kernels of a device make, from its construction; of value `target` (from 0) it flips a bit of an
/// element. Numbers are taken modulo what there is.
class PlantedBit {
 public:
  PlantedBit(Device device, std::uint64_t target, std::uint64_t element, int bit)
      : plant_(std::make_shared<Plant>(device, target, element, bit)) {
    graph::add_watch(plant_, true);
  }
  ~PlantedBit() { graph::remove_watch(plant_.get()); }
  PlantedBit(const PlantedBit&) = delete;
  PlantedBit& operator=(const PlantedBit&) = delete;

  std::uint64_t values() const { return plant_->count; }
  /// The element's position; nothing before it was flipped.
  std::optional<std::int64_t> position() const { return plant_->position; }

 private:
  struct Plant : graph::KernelWatch {
    Plant(Device where, std::uint64_t number, std::uint64_t which, int one)
        : device(where), target(number), element(which), bit(one) {}
    struct Flush : graph::FlushWatch {
      explicit Flush(Plant& owner) : plant(owner) {}
      void after(const graph::KernelRun& run) override {
        for (const int entry : run.step.writes) {
          const auto e = static_cast<std::size_t>(entry);
          if (plant.count++ == plant.target) plant.flip(run, *run.window.nodes[e], run.buffers[e]);
        }
      }
      Plant& plant;
    };
    std::unique_ptr<graph::FlushWatch> begin(Backend& backend, const graph::Window&, const graph::Plan&) override {
      return backend.device() == device ? std::make_unique<Flush>(*this) : nullptr;
    }
    void flip(const graph::KernelRun& run, const graph::Node& node, const BufferRef& buffer) {
      std::vector<std::byte> bytes = graph::bytes_of(run.backend, node, buffer);
      if (bytes.empty()) return;
      const std::uint64_t size = size_of(node.dtype);
      const std::uint64_t chosen = element % static_cast<std::uint64_t>(node.shape.numel());
      // Of truth values only one bit is a value, and NaN of any payload is one.
      const int last = node.dtype == DType::boolean ? 1 : static_cast<int>(8 * size);
      const int position_of_bit = bit % last;
      bytes[chosen * size + static_cast<std::uint64_t>(position_of_bit / 8)] ^= std::byte{1} << (position_of_bit % 8);
      run.backend.upload(*buffer, bytes.data(), bytes.size());
      position = static_cast<std::int64_t>(chosen);
    }
    Device device;
    std::uint64_t target;
    std::uint64_t element;
    int bit;
    std::uint64_t count = 0;
    std::optional<std::int64_t> position;
  };
  std::shared_ptr<Plant> plant_;
};

}  // namespace lockstep::test
