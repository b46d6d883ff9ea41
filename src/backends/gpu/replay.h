// A driver in front of a driver: launches are collected and handed over in lists, and a list that comes again, as a
// training step's or a decoded token's does, is replayed with one call instead of launched kernel by kernel.
//
// A list is known by its kernels. Addresses and scalars may differ from run to run: a few launches with other words are
// changed in the recording, and lists of which most differ (memory that alternates between two steps) have several
// recordings. Everything else that is asked of the driver starts what was collected first, so the order stays.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "backends/gpu/driver.h"
#include "backends/gpu/hazards.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

class ReplayingDriver : public Driver {
 public:
  explicit ReplayingDriver(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {}

  const DriverInfo& info() const override { return driver_->info(); }
  std::uint64_t allocate(std::size_t bytes) override { return driver_->allocate(bytes); }
  void release(std::uint64_t address) override;
  void upload(std::uint64_t to, const void* from, std::size_t bytes) override;
  void download(void* to, std::uint64_t from, std::size_t bytes) override;
  void copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) override;
  std::string source(const KernelText& kernel, const Arithmetic& arithmetic) const override {
    return driver_->source(kernel, arithmetic);
  }
  std::vector<std::byte> compile(const std::string& source) const override { return driver_->compile(source); }
  std::unique_ptr<Module> load(std::span<const std::byte> binary, const KernelText& kernel) override;
  std::vector<std::byte> to_keep(std::vector<std::byte> binary, const Module& module) const override;
  std::string missing_for_products() const override { return driver_->missing_for_products(); }
  std::string missing_for_convolutions() const override { return driver_->missing_for_convolutions(); }
  bool has_attention() const override { return driver_->has_attention(); }
  std::string libraries() const override { return driver_->libraries(); }
  std::unique_ptr<Module> load_call(const LibraryCall& call) override;
  void launch(const Module& module, std::uint32_t groups, std::span<const std::uint32_t> words,
              std::span<const Access> accesses) override;
  void start() override;
  void wait() override;
  std::unique_ptr<WorkMark> mark() override;
  void wait_for(const WorkMark& mark) override;
  std::unique_ptr<SideQueue> side_queue() override { return driver_->side_queue(); }
  std::unique_ptr<HostCopy> begin_download(std::uint64_t from, std::size_t bytes) override;
  bool copy_from(Driver& other, std::uint64_t to, std::uint64_t from, std::size_t bytes) override;
  bool reads_directly(int other) override { return driver_->reads_directly(other); }
  Driver& inner() override { return driver_->inner(); }

  /// Lists that were replayed so far.
  std::uint64_t replays() const { return replays_; }

 private:
  /// Shared with lists that are not started yet or recorded.
  struct Shared : Module {
    explicit Shared(std::unique_ptr<Module> loaded) : module(std::move(loaded)) {}
    std::shared_ptr<const Module> module;
  };

  /// Launches with their words and accesses side by side.
  struct List {
    struct Launch {
      std::shared_ptr<const Module> module;
      std::uint32_t groups = 0;
      std::size_t first_word = 0, words = 0;
      std::size_t first_access = 0, accesses = 0;
      bool overlaps = false;
    };
    std::vector<Launch> launches;
    std::vector<std::uint32_t> words;
    std::vector<Access> accesses;
    std::uint64_t hash = 0;  ///< of the kernels and their grids

    Command command(std::size_t launch) const;
    bool writes_early_ones(std::span<const Access> accesses) const;
    bool has_kernels_of(const List& other) const;
    bool has_words_of(const List& other, std::size_t launch) const;
    void clear();
  };

  struct Known {
    List list;
    std::unique_ptr<Recording> recording;
    std::uint64_t last_use = 0;
  };

  bool replay_collected();
  Known* closest(std::vector<std::size_t>& different);
  void remember();

  /// Of a list: what is collected longer leaves the device idle.
  static constexpr std::size_t kMostLaunches = kMostCommands;
  static constexpr std::size_t kLeastLaunches = 4;  ///< below, a list is not worth it
  static constexpr std::size_t kMostKnown = 256;    ///< lists
  static constexpr std::size_t kMostVariants = 64;  ///< of one list of kernels, as equal layers have them

  std::unique_ptr<Driver> driver_;
  List collected_;
  std::vector<std::unique_ptr<Known>> known_;
  std::exception_ptr failure_;  ///< of launches that were started where nothing may be thrown
  std::uint64_t uses_ = 0;
  std::uint64_t replays_ = 0;
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
