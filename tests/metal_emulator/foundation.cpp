#include "foundation.h"

#include <fmt/format.h>

#include "settings.h"

namespace emulator {

objc::id Array::at(unsigned long index) {
  if (index >= items_.size()) misuse(fmt::format("objectAtIndex: {} of an NSArray of {}", index, items_.size()));
  return items_[index]->handle();
}

void Error::give(objc::id* to, const char* domain, long code, const std::string& description) {
  if (to != nullptr) *to = objc::autoreleased(new Error(domain, code, description));
}

namespace {

class AutoreleasePool : public objc::Object {
 public:
  static constexpr const char* kName = "NSAutoreleasePool";
  AutoreleasePool() : Object(objc::class_named(kName)), pool_(objc::push_pool()) {}
  void drain() {
    objc::pop_pool(pool_);
    Object::release();
  }

 private:
  void* pool_;
};

class ProcessInfo : public objc::Object {
 public:
  static constexpr const char* kName = "NSProcessInfo";
  ProcessInfo() : Object(objc::class_named(kName)) {}
  static objc::id shared() { return objc::autoreleased(new ProcessInfo); }
  objc::id version() { return string(fmt::format("Version {}.0 (emulated)", settings::system_version())); }
};

struct Foundation {
  Foundation() {
    objc::Methods<String>()
        .on_class<&String::with_utf8>("stringWithUTF8String:")
        .on<&String::utf8>("UTF8String")
        .on<&String::length>("length")
        .on<&String::equals>("isEqualToString:");
    objc::Methods<Array>().on<&Array::count>("count").on<&Array::at>("objectAtIndex:");
    objc::Methods<Error>()
        .on<&Error::domain>("domain")
        .on<&Error::code>("code")
        .on<&Error::description>("localizedDescription")
        .on<&Error::description>("description");
    objc::Methods<AutoreleasePool>().made_by_alloc().on<&AutoreleasePool::drain>("drain").on<&AutoreleasePool::drain>(
        "release");
    objc::Methods<ProcessInfo>()
        .on_class<&ProcessInfo::shared>("processInfo")
        .on<&ProcessInfo::version>("operatingSystemVersionString");
  }
};
const Foundation foundation;

}  // namespace
}  // namespace emulator
