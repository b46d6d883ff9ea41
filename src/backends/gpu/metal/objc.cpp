#include "backends/gpu/metal/objc.h"

#include <cstdlib>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace metal {

// Foundation has the classes of strings, Core Graphics makes the devices of programs without windows known.
Runtime::Runtime() {
  std::vector<std::string> names = {"/usr/lib/libobjc.A.dylib",
                                    "/System/Library/Frameworks/Foundation.framework/Foundation",
                                    "/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics",
                                    "/System/Library/Frameworks/Metal.framework/Metal"};
  if (const char* const chosen = std::getenv("LOCKSTEP_METAL_LIBRARY"); chosen != nullptr && *chosen != '\0') {
    names = {chosen};
    replaced = true;
  }
  for (const std::string& name : names) {
    libraries_.emplace_back(std::span(&name, 1));
    if (libraries_.back().is_open()) continue;
    missing = replaced ? fmt::format("LOCKSTEP_METAL_LIBRARY: {}", libraries_.back().error())
                       : std::string("Metal is part of macOS, and this is another system");
    return;
  }
  const auto find = [&](const char* name, auto& function) {
    void* address = nullptr;
    for (const os::SharedLibrary& library : libraries_) {
      if (address == nullptr) address = library.function(name);
    }
    function = reinterpret_cast<std::decay_t<decltype(function)>>(address);
    if (address == nullptr && missing.empty()) missing = fmt::format("Metal lacks {}", name);
  };
  find("objc_msgSend", send);
  find("sel_registerName", selector);
  find("objc_getClass", get_class);
  find("objc_autoreleasePoolPush", pool_push);
  find("objc_autoreleasePoolPop", pool_pop);
  find("MTLCopyAllDevices", all_devices);
}

const Api& api() {
  static const Api* const instance = new Api;
  return *instance;
}

std::string text_of(Id string) {
  const char* const text = string == nullptr ? nullptr : api().utf8(string);
  return text == nullptr ? "" : text;
}

std::string error_of(Id error) {
  const std::string text = text_of(api().error_text(error));
  return text.empty() ? "no reason given" : text;
}

}  // namespace metal
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
