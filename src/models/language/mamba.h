// What describes a Mamba, whatever file says it.
#pragma once

#include "models/language/states.h"

namespace lockstep {
inline namespace v0 {
namespace models {

struct MambaConfig {
  int version = 1;
  std::string family;
  std::int64_t vocabulary = 0;
  std::int64_t hidden = 0;
  std::int64_t inner = 0;
  std::int64_t layers = 0;
  std::int64_t state = 0;
  std::int64_t kernel = 0;
  std::int64_t step_rank = 0;  ///< 1
  std::int64_t heads = 0;      ///< 2
  std::int64_t groups = 1;     ///< 2
  bool bias = false;
  bool convolution_bias = true;
  bool tied = true;
  bool logarithms = true;  ///< Files have the logarithms of decays (A_log), not minus the decays (A: GGUF).
  double eps = 1e-5;
  double longest_step = 0;  ///< 2; 0: no limit
  double shortest_step = 0;
};

/// With the names of transformers.
std::unique_ptr<LanguageModel> make_mamba(const MambaConfig& config);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
