// The least Metal that the emulator's own tests need: messages to the fake library, and a way to run one kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace emulator_test {

struct objc_object;
using id = objc_object*;
struct Size {
  unsigned long width, height, depth;
};
struct Range {
  unsigned long location, length;
};

/// A symbol of libfakemetal.so; throws when there is none.
void* symbol(const char* name);
const void* selector(const char* name);

/// [object name: arguments...], with the exact prototype that the ABI of AArch64 needs.
template <class R = id, class... A> R send(id object, const char* name, A... arguments) {
  static void* const message = symbol("objc_msgSend");
  return reinterpret_cast<R (*)(id, const void*, A...)>(message)(object, selector(name), arguments...);
}
id class_named(const char* name);
id string(const char* text);
std::string text_of(id string);
long live_objects();

/// An autorelease pool as a scope.
class Pool {
 public:
  Pool();
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

 private:
  void* pool_;
};

/// Owns what `new...` or `copy...` returned.
class Owned {
 public:
  Owned() = default;
  explicit Owned(id object) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() {
    if (object_ != nullptr) send<void>(object_, "release");
  }
  operator id() const { return object_; }

 private:
  id object_ = nullptr;
};

/// A variable of the environment, for a scope.
class Setting {
 public:
  Setting(const char* name, const std::string& value);
  ~Setting();
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool was_set_;
};

/// A device with a queue, and a kernel. The text is preceded by the three lines that every text needs.
class Metal {
 public:
  Metal();
  id device() const { return device_; }
  id queue() const { return queue_; }

  /// The library, or null and the compiler's words in `error`.
  Owned library(const std::string& text, std::string* error = nullptr) const;
  /// The pipeline of kernel `k`. Throws with the words of the API.
  Owned pipeline(const std::string& text) const;
  Owned buffer(std::size_t bytes) const;
  /// Runs kernel `k` of a text with buffers at 0, 1, ...: `groups` threadgroups of `threads`. The command buffer's
  /// error, empty if there is none.
  std::string run(const std::string& text, const std::vector<id>& buffers, unsigned long groups,
                  unsigned long threads) const;

  /// Runs a kernel that fills buffer 0 with `count` values of T, one for each thread of one threadgroup.
  template <class T> std::vector<T> values(const std::string& text, std::size_t count) const {
    const Owned memory = buffer(count * sizeof(T));
    const std::string error = run(text, {memory}, 1, count);
    if (!error.empty()) throw_error(error);
    const T* data = send<const T*>(memory, "contents");
    return std::vector<T>(data, data + count);
  }

 private:
  [[noreturn]] static void throw_error(const std::string& error);
  Owned device_, queue_;
};

/// `kernel void k(device T* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) { body }`
std::string kernel_filling(const char* type, const std::string& body);

template <class T> T* contents(id buffer) {
  return send<T*>(buffer, "contents");
}

}  // namespace emulator_test
