// System calls of which the k-th fails. A test raises k until nothing fails any more: then every call has failed once.
#pragma once

#include <cerrno>
#include <string>
#include <vector>

#include "core/os.h"

namespace lockstep::test {

class FailingCalls : public os::SystemCalls {
 public:
  /// The call number `failing` (from 0) fails with `error`; 0 means that it transfers only one byte, if it transfers.
  FailingCalls(int failing, int error) : failing_(failing), error_(error) {}

  bool failed() const { return failed_; }
  const std::string& failed_call() const { return failed_call_; }

  int open(const char* path, int flags, mode_t mode) override {
    return fails("open") ? -1 : SystemCalls::open(path, flags, mode);
  }
  int fstat(int file, struct stat* result) override { return fails("fstat") ? -1 : SystemCalls::fstat(file, result); }
  ssize_t read(int file, void* data, std::size_t bytes) override {
    return fails("read") ? short_or_error(SystemCalls::read(file, data, error_ == 0 ? 1 : 0))
                         : SystemCalls::read(file, data, bytes);
  }
  void* mmap(int file, std::size_t bytes) override {
    return fails("mmap") ? reinterpret_cast<void*>(-1) : SystemCalls::mmap(file, bytes);
  }
  ssize_t write(int file, const void* data, std::size_t bytes) override {
    return fails("write") ? short_or_error(SystemCalls::write(file, data, error_ == 0 ? 1 : 0))
                          : SystemCalls::write(file, data, bytes);
  }
  int fchmod(int file, mode_t mode) override { return fails("fchmod") ? -1 : SystemCalls::fchmod(file, mode); }
  int fsync(int file) override { return fails("fsync") ? -1 : SystemCalls::fsync(file); }
  int close(int file) override {
    const int result = SystemCalls::close(file);  // the descriptor is gone either way
    return fails("close") ? -1 : result;
  }
  int rename(const char* from, const char* to) override { return fails("rename") ? -1 : SystemCalls::rename(from, to); }

 private:
  bool fails(const char* call) {
    const bool transfers = std::string(call) == "read" || std::string(call) == "write";
    if (error_ == 0 && !transfers) return false;
    if (count_++ != failing_) return false;
    failed_ = true;
    failed_call_ = call;
    errno = error_;
    return true;
  }
  ssize_t short_or_error(ssize_t transferred) {
    errno = error_;
    return error_ == 0 ? transferred : -1;
  }

  int failing_;
  int error_;
  int count_ = 0;
  bool failed_ = false;
  std::string failed_call_;
};

}  // namespace lockstep::test
