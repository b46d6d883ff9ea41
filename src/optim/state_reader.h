// Reading a saved state: every key is wanted with one dtype and shape, and one error names all that does not fit.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

/// Wrong entries are noted; what is read of them is an undefined tensor or 0, to be used only after finish().
class StateReader {
 public:
  /// `of` is whose state it is, for errors. ValueError if a tensor is undefined.
  StateReader(const char* of, const nn::StateDict& state);

  bool has(std::string_view key) const { return given_.contains(key); }
  Tensor tensor(const std::string& key, DType dtype, const Shape& shape);
  double number(const std::string& key);
  /// Not negative.
  std::int64_t count(const std::string& key);
  /// Throws what Optimizer::load_state_dict does if something was wrong, or was not asked for.
  void finish();

 private:
  void note(const char* problem, std::string_view key, DType dtype, const Shape& shape, const std::string& rest);

  const char* of_;
  std::map<std::string_view, const Tensor*> given_;
  int missing_ = 0;
  int misshaped_ = 0;
  int mistyped_ = 0;
  int others_ = 0;
  std::string problems_;
};

/// Entries as StateReader reads them.
Tensor saved_number(double value);
Tensor saved_count(std::int64_t value);

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
