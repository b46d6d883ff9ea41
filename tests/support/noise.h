// Weights and pictures that are made by a formula which tools/vision_goldens.py has too, so that goldens of networks
// need not hold them.
#pragma once

#include <nlohmann/json.hpp>

#include <lockstep/nn/module.h>

namespace lockstep::test {

/// Every weight by the noise of its key, kept of the order of 1, but counters of batch norms and the bins of a
/// distribution (dfl.conv.weight), which stay; in evaluation mode.
void set_noise_weights(nn::Module& model);
/// The keys of these weights with their shapes: {"conv.weight": [8, 3, 3, 3], ...}.
nlohmann::json keys_of(const nn::Module& model);
/// Values in [-2, 2).
Tensor noise_picture(const Shape& shape);

}  // namespace lockstep::test
