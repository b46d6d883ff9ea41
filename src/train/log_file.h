// A file that grows line by line. Every write reaches the operating system before it returns, so that others can
// follow.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep {
inline namespace v0 {
namespace train {

class LogFile {
 public:
  /// Throws IoError.
  LogFile(std::string path, bool append);
  void write(std::string_view bytes);

 private:
  [[noreturn]] void fail() const;

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace train
}  // namespace v0
}  // namespace lockstep
