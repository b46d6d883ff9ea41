// A language model of which several processes have a part each: tensor parallelism, to the bits that one process gives.
#pragma once

#include <lockstep/device.h>
#include <lockstep/dist.h>
#include <lockstep/models/language.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// Divides the columns of what projections give, the rows of their weights, among the ranks: each computes its own, on
/// `device`, and gets the others'; so with the embedding's rows. Of experts each rank has some, whole. Every rank has
/// loaded the model on the CPU, calls this, and from then on makes the same calls of it, under NoGrad; model.to(device)
/// moves what is not divided (norms, routers, biases). To read a parameter that others have a part of is a ValueError.
/// ValueError for models without projections.
LOCKSTEP_API void divide_columns(LanguageModel& model, const dist::Group& group, Device device);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
