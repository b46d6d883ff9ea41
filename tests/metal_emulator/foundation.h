// The classes of Foundation that a Metal driver meets.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "objc.h"

namespace emulator {

class String : public objc::Object {
 public:
  static constexpr const char* kName = "NSString";
  explicit String(std::string text) : Object(objc::class_named(kName)), text_(std::move(text)) {}

  static objc::id with_utf8(const char* text) { return objc::autoreleased(new String(text)); }
  const char* utf8() { return text_.c_str(); }
  unsigned long length() { return text_.size(); }
  bool equals(objc::id other) { return text_ == objc::get<String>(other).text_; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

inline objc::id string(const std::string& text) {
  return objc::autoreleased(new String(text));
}

class Array : public objc::Object {
 public:
  static constexpr const char* kName = "NSArray";
  explicit Array(std::vector<objc::Ref<Object>> items) : Object(objc::class_named(kName)), items_(std::move(items)) {}

  unsigned long count() { return items_.size(); }
  objc::id at(unsigned long index);

 private:
  std::vector<objc::Ref<Object>> items_;
};

class Error : public objc::Object {
 public:
  static constexpr const char* kName = "NSError";
  Error(std::string domain, long code, std::string description)
      : Object(objc::class_named(kName)), domain_(std::move(domain)), code_(code), text_(std::move(description)) {}

  objc::id domain() { return string(domain_); }
  long code() { return code_; }
  objc::id description() { return string(text_); }
  /// Puts an autoreleased error where the caller wants it.
  static void give(objc::id* to, const char* domain, long code, const std::string& description);

 private:
  std::string domain_;
  long code_;
  std::string text_;
};

}  // namespace emulator
