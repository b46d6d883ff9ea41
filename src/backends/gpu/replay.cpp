#include "backends/gpu/replay.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace gpu {

Command ReplayingDriver::List::command(std::size_t launch) const {
  const Launch& at = launches[launch];
  return {at.module.get(), at.groups, std::span(words).subspan(at.first_word, at.words),
          std::span(accesses).subspan(at.first_access, at.accesses), at.overlaps};
}

// Whether a launch of this list writes what one with these accesses reads early.
bool ReplayingDriver::List::writes_early_ones(std::span<const Access> later) const {
  return std::any_of(later.begin(), later.end(), [&](const Access& read) {
    return read.early && std::any_of(accesses.begin(), accesses.end(), [&](const Access& earlier) {
             return earlier.writes && earlier.address == read.address;
           });
  });
}

bool ReplayingDriver::List::has_kernels_of(const List& other) const {
  return hash == other.hash && std::equal(launches.begin(), launches.end(), other.launches.begin(),
                                          other.launches.end(), [](const Launch& a, const Launch& b) {
                                            return a.module == b.module && a.groups == b.groups && a.words == b.words &&
                                                   a.overlaps == b.overlaps;
                                          });
}

bool ReplayingDriver::List::has_words_of(const List& other, std::size_t launch) const {
  const Command here = command(launch);
  const Command there = other.command(launch);
  return std::equal(here.words.begin(), here.words.end(), there.words.begin(), there.words.end());
}

void ReplayingDriver::List::clear() {
  launches.clear();
  words.clear();
  accesses.clear();
  hash = 0;
}

void ReplayingDriver::release(std::uint64_t address) {
  try {
    start();
  } catch (const BackendError&) {
    failure_ = std::current_exception();  // whoever releases memory cannot do anything about it
  }
  driver_->release(address);
}

void ReplayingDriver::upload(std::uint64_t to, const void* from, std::size_t bytes) {
  start();
  driver_->upload(to, from, bytes);
}

void ReplayingDriver::download(void* to, std::uint64_t from, std::size_t bytes) {
  start();
  driver_->download(to, from, bytes);
}

void ReplayingDriver::copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) {
  start();
  driver_->copy(to, from, bytes);
}

std::unique_ptr<Module> ReplayingDriver::load(std::span<const std::byte> binary, const KernelText& kernel) {
  return std::make_unique<Shared>(driver_->load(binary, kernel));
}

std::vector<std::byte> ReplayingDriver::to_keep(std::vector<std::byte> binary, const Module& module) const {
  return driver_->to_keep(std::move(binary), *static_cast<const Shared&>(module).module);
}

std::unique_ptr<Module> ReplayingDriver::load_call(const LibraryCall& call) {
  return std::make_unique<Shared>(driver_->load_call(call));
}

void ReplayingDriver::launch(const Module& module, std::uint32_t groups, std::span<const std::uint32_t> words,
                             std::span<const Access> accesses) {
  const std::shared_ptr<const Module>& shared = static_cast<const Shared&>(module).module;
  List& list = collected_;
  const bool overlaps = !list.launches.empty() && !list.writes_early_ones(accesses);
  list.launches.push_back(
      {shared, groups, list.words.size(), words.size(), list.accesses.size(), accesses.size(), overlaps});
  list.words.insert(list.words.end(), words.begin(), words.end());
  list.accesses.insert(list.accesses.end(), accesses.begin(), accesses.end());
  list.hash =
      (list.hash ^ std::hash<const void*>()(shared.get()) ^ groups ^ (overlaps ? 1u << 31 : 0u)) * 0x9e3779b97f4a7c15u;
  list.hash ^= list.hash >> 29;
  if (list.launches.size() >= kMostLaunches) start();
}

void ReplayingDriver::start() {
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  if (!collected_.launches.empty()) {
    // What was collected is given up whatever happens: an error is reported once.
    struct Clear {
      List& list;
      ~Clear() { list.clear(); }
    } clear{collected_};
    if (collected_.launches.size() < kLeastLaunches || !replay_collected()) {
      for (std::size_t i = 0; i < collected_.launches.size(); ++i) {
        const Command command = collected_.command(i);
        driver_->launch(*command.module, command.groups, command.words, command.accesses);
      }
    }
  }
  driver_->start();
}

void ReplayingDriver::wait() {
  start();
  driver_->wait();
}

std::unique_ptr<WorkMark> ReplayingDriver::mark() {
  start();
  return driver_->mark();
}

void ReplayingDriver::wait_for(const WorkMark& mark) {
  start();
  driver_->wait_for(mark);
}

std::unique_ptr<HostCopy> ReplayingDriver::begin_download(std::uint64_t from, std::size_t bytes) {
  start();
  return driver_->begin_download(from, bytes);
}

bool ReplayingDriver::copy_from(Driver& other, std::uint64_t to, std::uint64_t from, std::size_t bytes) {
  other.start();
  start();
  return driver_->copy_from(other.inner(), to, from, bytes);
}

// The known list of the same kernels that differs in the fewest launches.
ReplayingDriver::Known* ReplayingDriver::closest(std::vector<std::size_t>& different) {
  Known* best = nullptr;
  for (const std::unique_ptr<Known>& known : known_) {
    if (!known->list.has_kernels_of(collected_)) continue;
    std::vector<std::size_t> differs;
    for (std::size_t i = 0; i < collected_.launches.size(); ++i) {
      if (!known->list.has_words_of(collected_, i)) differs.push_back(i);
    }
    if (best != nullptr && differs.size() >= different.size()) continue;
    best = known.get();
    different = std::move(differs);
    if (different.empty()) break;
  }
  return best;
}

// A list is recorded when it comes the second time. False: it has to be launched.
bool ReplayingDriver::replay_collected() {
  std::vector<std::size_t> different;
  Known* const known = closest(different);
  const std::size_t most_changes = driver_->can_change() ? collected_.launches.size() / 4 : 0;
  if (known == nullptr || different.size() > most_changes) {
    remember();
    return false;
  }
  known->last_use = ++uses_;
  if (known->recording == nullptr) {
    std::vector<Command> commands;
    for (std::size_t i = 0; i < collected_.launches.size(); ++i) commands.push_back(collected_.command(i));
    known->recording = driver_->record(commands);
    if (known->recording == nullptr) return false;
  } else {
    for (const std::size_t i : different) driver_->change(*known->recording, i, collected_.command(i));
  }
  if (!different.empty()) std::swap(known->list, collected_);  // the caller clears what was collected
  driver_->replay(*known->recording);
  ++replays_;
  return true;
}

// Takes the place of the list that was not used for the longest time: among those of the same kernels if there are
// many.
void ReplayingDriver::remember() {
  std::vector<Known*> variants;
  for (const std::unique_ptr<Known>& known : known_) {
    if (known->list.has_kernels_of(collected_)) variants.push_back(known.get());
  }
  const auto older = [](const auto& a, const auto& b) { return a->last_use < b->last_use; };
  Known* place = nullptr;
  if (variants.size() >= kMostVariants) {
    place = *std::min_element(variants.begin(), variants.end(), older);
  } else if (known_.size() >= kMostKnown) {
    place = std::min_element(known_.begin(), known_.end(), older)->get();
  } else {
    place = known_.emplace_back(std::make_unique<Known>()).get();
  }
  place->recording = nullptr;
  place->list = collected_;
  place->last_use = ++uses_;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
