// An Objective-C run time for a closed set of classes, each a C++ class derived from Object whose member functions
// answer the selectors. Handles are never reused, so a message to a released object is recognised.
//
// One lock is held while a message is answered. Autorelease pools belong to their OS thread.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

namespace emulator {
namespace objc {

struct Handle;
struct Class;
using id = Handle*;
/// The registered name: equal names are equal pointers.
using Selector = const char*;

class Object {
 public:
  explicit Object(Class& type);
  virtual ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  id handle() const { return handle_; }
  const Class& type() const;
  void retain() { ++count_; }
  void release();
  /// Whether a driver may have it when the process ends: what it keeps, and work that is not done.
  virtual bool is_kept() const { return false; }

 private:
  friend struct Root;
  Handle* handle_;
  std::size_t count_ = 1;
};

struct Class {
  Class* meta = nullptr;  ///< must be first: a class answers messages like an object
  Object* none = nullptr;
  std::string name;
  bool is_meta = false;
  std::map<Selector, void*> methods;
};

/// What an `id` points to.
struct Handle {
  Class* isa;
  Object* object;  ///< null once released
};

/// Owns one count of an object.
template <class T> class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) object_->retain();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

std::recursive_mutex& lock();
Class& class_named(const std::string& name);
Selector selector(const std::string& name);
std::size_t live_objects();
/// Live objects by class, for a report. `transient`: without those that are kept.
std::string live_object_list(bool transient = false);

/// The object behind a handle; a released one, or one of another class than T, is misuse.
Object& any(id handle);
[[noreturn]] void wrong_class(const Object& object, const char* wanted);
template <class T> T& get(id handle) {
  Object& object = any(handle);
  T* result = dynamic_cast<T*>(&object);
  if (result == nullptr) wrong_class(object, T::kName);
  return *result;
}
template <class T> T* get_or_null(id handle) {
  return handle == nullptr ? nullptr : &get<T>(handle);
}

/// Gives an object to the caller: with the count that it was made with, or to be released by the innermost pool.
inline id owned(Object* object) {
  return object->handle();
}
id autoreleased(Object* object);

void* push_pool();
void pop_pool(void* pool);

/// Makes a member function answer a selector.
template <auto Member> struct Answer;
template <class T, class R, class... A, R (T::*Member)(A...)> struct Answer<Member> {
  static R call(id self, Selector, A... arguments) {
    const std::lock_guard guard(lock());
    return (get<T>(self).*Member)(arguments...);
  }
};
template <class R, class... A, R (*Function)(A...)> struct Answer<Function> {
  static R call(id, Selector, A... arguments) {
    const std::lock_guard guard(lock());
    return Function(arguments...);
  }
};

/// The selectors of a class, as one reads them.
template <class T> class Methods {
 public:
  Methods() : class_(class_named(T::kName)) {}
  template <auto Member> Methods& on(const char* name) {
    class_.methods[selector(name)] = reinterpret_cast<void*>(&Answer<Member>::call);
    return *this;
  }
  template <auto Function> Methods& on_class(const char* name) {
    class_.meta->methods[selector(name)] = reinterpret_cast<void*>(&Answer<Function>::call);
    return *this;
  }
  /// +alloc and +new of a class without arguments.
  Methods& made_by_alloc() { return on_class<&Methods::make>("alloc").template on_class<&Methods::make>("new"); }

 private:
  static id make() { return owned(new T); }
  Class& class_;
};

}  // namespace objc
}  // namespace emulator
