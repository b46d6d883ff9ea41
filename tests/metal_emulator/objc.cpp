#include "objc.h"

#include <deque>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "settings.h"

namespace emulator {
namespace objc {
namespace {

std::map<std::string, Class*>& classes() {
  static auto* all = new std::map<std::string, Class*>;
  return *all;
}

/// Never destroyed: static objects of a driver may send messages while the process ends.
struct Objects {
  std::deque<Handle> handles;
  std::size_t count = 0;
  static Objects& instance() {
    static auto* objects = new Objects;
    return *objects;
  }
};

thread_local std::vector<Object*> autoreleased_objects;
thread_local std::vector<std::size_t> pools;  // where in the list above each begins

bool answers(const Class& type, Selector name) {
  return type.methods.contains(name) || (!type.is_meta && class_named("NSObject").methods.contains(name));
}

}  // namespace

std::recursive_mutex& lock() {
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

Class& class_named(const std::string& name) {
  const std::lock_guard guard(lock());
  Class*& found = classes()[name];
  if (found == nullptr) {
    auto* meta = new Class{nullptr, nullptr, name, true, {}};
    found = new Class{meta, nullptr, name, false, {}};
  }
  return *found;
}

Selector selector(const std::string& name) {
  const std::lock_guard guard(lock());
  static auto* names = new std::set<std::string>;
  return names->insert(name).first->c_str();
}

Object::Object(Class& type) {
  Objects& objects = Objects::instance();
  handle_ = &objects.handles.emplace_back(Handle{&type, this});
  ++objects.count;
}

Object::~Object() {
  Objects& objects = Objects::instance();
  --objects.count;
  handle_->object = nullptr;
}

const Class& Object::type() const {
  return *handle_->isa;
}

void Object::release() {
  if (--count_ == 0) delete this;
}

std::size_t live_objects() {
  const std::lock_guard guard(lock());
  return Objects::instance().count;
}

std::string live_object_list(bool transient) {
  const std::lock_guard guard(lock());
  std::map<std::string, std::size_t> live;
  for (const Handle& handle : Objects::instance().handles) {
    if (handle.object != nullptr && !(transient && handle.object->is_kept())) ++live[handle.isa->name];
  }
  std::string list;
  for (const auto& [name, count] : live) list += fmt::format("{}{} {}", list.empty() ? "" : ", ", count, name);
  return list;
}

Object& any(id handle) {
  if (handle->object == nullptr) misuse(fmt::format("message to a released {}", handle->isa->name));
  return *handle->object;
}

void wrong_class(const Object& object, const char* wanted) {
  misuse(fmt::format("a {} where a {} belongs", object.type().name, wanted));
}

id autoreleased(Object* object) {
  if (pools.empty()) misuse(fmt::format("a {} is autoreleased with no pool in place: it leaks", object->type().name));
  autoreleased_objects.push_back(object);
  return object->handle();
}

void* push_pool() {
  pools.push_back(autoreleased_objects.size());
  return reinterpret_cast<void*>(pools.size());
}

void pop_pool(void* pool) {
  const std::lock_guard guard(lock());
  const auto depth = reinterpret_cast<std::size_t>(pool);
  if (depth == 0 || depth > pools.size()) misuse("an autorelease pool is popped that is not in place");
  if (depth != pools.size()) misuse("an autorelease pool is popped before those inside it");
  while (autoreleased_objects.size() > pools.back()) {
    Object* object = autoreleased_objects.back();
    autoreleased_objects.pop_back();
    object->release();
  }
  pools.pop_back();
}

/// What every object answers.
struct Root {
  static id retain(id self, Selector) {
    const std::lock_guard guard(lock());
    any(self).retain();
    return self;
  }
  static void release(id self, Selector) {
    const std::lock_guard guard(lock());
    any(self).release();
  }
  static id autorelease(id self, Selector) {
    const std::lock_guard guard(lock());
    return autoreleased(&any(self));
  }
  static unsigned long count(id self, Selector) {
    const std::lock_guard guard(lock());
    return any(self).count_;
  }
  static id itself(id self, Selector) { return self; }
  static bool responds(id self, Selector, Selector name) { return answers(*self->isa, name); }
  static void ignore_label(id self, Selector, id) { any(self); }

  Root() {
    auto& methods = class_named("NSObject").methods;
    const auto add = [&](const char* name, auto* function) {
      methods[selector(name)] = reinterpret_cast<void*>(function);
    };
    add("retain", &retain);
    add("release", &release);
    add("autorelease", &autorelease);
    add("retainCount", &count);
    add("init", &itself);
    add("respondsToSelector:", &responds);
    add("setLabel:", &ignore_label);
  }
};
static const Root root;

#define EXPORTED extern "C" __attribute__((visibility("default")))

/// The function that answers; called by objc_msgSend.
extern "C" __attribute__((visibility("hidden"))) void* emulator_lookup(id self, Selector name) {
  const Class& type = *self->isa;
  const auto own = type.methods.find(name);
  if (own != type.methods.end()) return own->second;
  if (!type.is_meta) {
    const auto& common = class_named("NSObject").methods;
    const auto inherited = common.find(name);
    if (inherited != common.end()) return inherited->second;
  }
  misuse(fmt::format("unrecognised selector {}[{} {}]", type.is_meta ? '+' : '-', type.name, name));
}

EXPORTED Selector sel_registerName(const char* name) {
  return selector(name);
}
EXPORTED const char* sel_getName(Selector name) {
  return name;
}
EXPORTED Class* objc_lookUpClass(const char* name) {
  const std::lock_guard guard(lock());
  const auto found = classes().find(name);
  return found == classes().end() ? nullptr : found->second;
}
EXPORTED Class* objc_getClass(const char* name) {
  return objc_lookUpClass(name);
}
EXPORTED Class* object_getClass(id self) {
  return self == nullptr ? nullptr : self->isa;
}
EXPORTED const char* class_getName(const Class* type) {
  return type == nullptr ? "nil" : type->name.c_str();
}
EXPORTED const char* object_getClassName(id self) {
  return class_getName(object_getClass(self));
}
EXPORTED bool class_respondsToSelector(const Class* type, Selector name) {
  return type != nullptr && answers(*type, name);
}
EXPORTED void* objc_autoreleasePoolPush() {
  return push_pool();
}
EXPORTED void objc_autoreleasePoolPop(void* pool) {
  pop_pool(pool);
}
EXPORTED id objc_retain(id self) {
  return self == nullptr ? nullptr : Root::retain(self, nullptr);
}
EXPORTED void objc_release(id self) {
  if (self != nullptr) Root::release(self, nullptr);
}
EXPORTED id objc_autorelease(id self) {
  return self == nullptr ? nullptr : Root::autorelease(self, nullptr);
}
EXPORTED long fakemetal_live_objects() {
  return static_cast<long>(live_objects());
}

}  // namespace objc
}  // namespace emulator
