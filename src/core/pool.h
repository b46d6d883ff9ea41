// Memory for objects that come and go by the thousand, such as the nodes of a training step: freed blocks wait in a
// list of their thread for the next object of the same size. Used through std::allocate_shared.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace lockstep {
inline namespace v0 {

// AddressSanitizer has to see the end of every object.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kPoolKeeps = false;
#elif defined(__has_feature)
inline constexpr bool kPoolKeeps = !__has_feature(address_sanitizer);
#else
inline constexpr bool kPoolKeeps = true;
#endif

/// Blocks of one size. A thread keeps those that it frees, wherever they come from, up to a bound.
template <std::size_t kBytes> class BlockPool {
 public:
  static void* take() {
    if (list_.first == nullptr) return ::operator new(kBytes);
    Block* const block = list_.first;
    list_.first = block->next;
    --list_.count;
    return block;
  }
  static void give(void* memory) {
    (void)&end_of_thread_;  // made at the first use in a thread, so that it is there to be destroyed
    if (list_.ended || list_.count >= kMostKept) {
      ::operator delete(memory);
      return;
    }
    list_.first = ::new (memory) Block{list_.first};
    ++list_.count;
  }

 private:
  struct Block {
    Block* next;
  };
  static_assert(kBytes >= sizeof(Block));

  // Without a destructor: objects with static storage are destroyed when the main thread's list is gone.
  struct List {
    Block* first = nullptr;
    std::size_t count = 0;
    bool ended = false;
  };
  struct EndOfThread {
    EndOfThread() {}
    ~EndOfThread() {
      list_.ended = true;
      while (list_.first != nullptr) ::operator delete(std::exchange(list_.first, list_.first->next));
    }
  };

  static constexpr std::size_t kMostKept = kPoolKeeps ? 4096 : 0;
  inline static thread_local constinit List list_{};
  inline static thread_local EndOfThread end_of_thread_;
};

template <typename T> struct PoolAllocator {
  using value_type = T;
  PoolAllocator() = default;
  template <typename U> PoolAllocator(const PoolAllocator<U>&) {}
  T* allocate(std::size_t count) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    return static_cast<T*>(count == 1 ? BlockPool<sizeof(T)>::take() : ::operator new(count * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t count) {
    if (count == 1) {
      BlockPool<sizeof(T)>::give(memory);
    } else {
      ::operator delete(memory);
    }
  }
  friend bool operator==(const PoolAllocator&, const PoolAllocator&) { return true; }
};

/// std::make_shared with memory of the pool.
template <typename T, typename... Arguments> std::shared_ptr<T> make_pooled(Arguments&&... arguments) {
  return std::allocate_shared<T>(PoolAllocator<T>(), std::forward<Arguments>(arguments)...);
}

}  // namespace v0
}  // namespace lockstep
