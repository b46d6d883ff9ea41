// Buffers, libraries, functions and pipelines: what a device makes and commands use.
#pragma once

#include <memory>
#include <string>

#include "foundation.h"
#include "memory.h"
#include "objc.h"
#include "program.h"

namespace emulator {

class Buffer : public objc::Object {
 public:
  bool is_kept() const override { return true; }
  static constexpr const char* kName = "MTLBuffer";
  enum class Storage : unsigned long { shared_memory = 0, private_memory = 2 };
  /// Null when there is no memory for it.
  static Buffer* make(unsigned long length, unsigned long options);
  ~Buffer() override;

  void* contents();
  unsigned long length() { return memory_.size(); }
  unsigned long storage() { return static_cast<unsigned long>(storage_); }
  char* data() const { return memory_.data(); }
  std::size_t size() const { return memory_.size(); }
  /// What is to be said when something wrote past its ends; empty if nothing did.
  std::string overrun(const std::string& kernel) const;
  static std::size_t allocated_bytes();

 private:
  Buffer(unsigned long length, Storage storage);
  GuardedMemory memory_;
  Storage storage_;
};

class CompileOptions : public objc::Object {
 public:
  static constexpr const char* kName = "MTLCompileOptions";
  CompileOptions() : Object(objc::class_named(kName)) {}

  void set_fast_math(bool on) { math_mode_ = on ? kFast : kSafe; }
  bool fast_math() { return math_mode_ != kSafe; }
  void set_math_mode(long mode) { math_mode_ = mode; }
  long math_mode() { return math_mode_; }
  void set_math_functions(long mode) { math_functions_ = mode; }
  long math_functions() { return math_functions_; }
  void set_language_version(unsigned long version) { language_version_ = version; }
  unsigned long language_version() { return language_version_; }
  void set_preserve_invariance(bool on) { preserve_invariance_ = on; }
  bool preserve_invariance() { return preserve_invariance_; }

 private:
  static constexpr long kSafe = 0, kRelaxed = 1, kFast = 2;
  long math_mode_ = kRelaxed;
  long math_functions_ = 0;
  unsigned long language_version_ = 0;
  bool preserve_invariance_ = false;
};

class Function : public objc::Object {
 public:
  static constexpr const char* kName = "MTLFunction";
  Function(std::shared_ptr<const Program> program, const Kernel& kernel)
      : Object(objc::class_named(kName)), program_(std::move(program)), kernel_(kernel) {}

  objc::id name() { return string(kernel_.info.name); }
  const std::shared_ptr<const Program>& program() const { return program_; }
  const Kernel& kernel() const { return kernel_; }

 private:
  std::shared_ptr<const Program> program_;
  const Kernel& kernel_;
};

class Library : public objc::Object {
 public:
  static constexpr const char* kName = "MTLLibrary";
  static objc::id make(objc::id source, objc::id options, objc::id* error);

  objc::id function(objc::id name);
  objc::id function_names();

 private:
  explicit Library(std::shared_ptr<const Program> program)
      : Object(objc::class_named(kName)), program_(std::move(program)) {}
  std::shared_ptr<const Program> program_;
};

class Pipeline : public objc::Object {
 public:
  bool is_kept() const override { return true; }
  static constexpr const char* kName = "MTLComputePipelineState";
  static objc::id make(objc::id function, objc::id* error);

  unsigned long max_threads();
  unsigned long execution_width() { return kLanes; }
  unsigned long threadgroup_bytes() { return kernel_.variable_bytes; }
  const std::shared_ptr<const Program>& program() const { return program_; }
  const Kernel& kernel() const { return kernel_; }

 private:
  explicit Pipeline(const Function& function)
      : Object(objc::class_named(kName)), program_(function.program()), kernel_(function.kernel()) {}
  std::shared_ptr<const Program> program_;
  const Kernel& kernel_;
};

}  // namespace emulator
