// Forms of operands that kernels meet again and again (the digits of weights, in blocked numerics): made once instead
// of in every run, and gone with the contents that they were made of. Nothing is kept beyond a limit, and everything is
// let go when memory runs out. As backends/cpu/kept_panels.h, in a device's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "backends/gpu/driver.h"
#include "backends/gpu/memory.h"
#include "core/buffer.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

class KeptForms : public std::enable_shared_from_this<KeptForms> {
 public:
  /// What makes a form, with the words that it is launched with but for addresses.
  struct Maker {
    std::shared_ptr<const Module> module;
    std::vector<std::uint32_t> words;
  };

  /// `mutex` is that of `memory`.
  KeptForms(Memory& memory, std::mutex& mutex, std::size_t limit) : memory_(memory), mutex_(mutex), limit_(limit) {}

  // With the mutex held.
  /// 0 where these contents are not kept in this form.
  std::uint64_t find(std::uint64_t contents, const Maker& maker) const;
  /// Memory where the contents of `buffer` will be found in this form as soon as it was made; 0: beyond the limit.
  std::uint64_t keep(Buffer& buffer, const Maker& maker, std::size_t bytes);
  /// Whether there was any.
  bool drop_all();
  std::size_t bytes() const { return bytes_; }

  /// Takes the mutex.
  void drop(std::uint64_t contents);

 private:
  using Key = std::tuple<std::uint64_t, const Module*, std::vector<std::uint32_t>>;
  struct Entry {
    std::shared_ptr<const Module> module;  ///< so that no other one gets its address
    std::uint64_t address;
    std::size_t bytes;
  };
  void release(const Entry& entry);

  std::map<Key, Entry> entries_;
  std::size_t bytes_ = 0;
  Memory& memory_;
  std::mutex& mutex_;
  std::size_t limit_;
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
