// Batches whose examples are mixed with each other, and their labels with them.
//
//   auto mixed = ls::data::mix(train, {ls::data::MixUp{.classes = 10}, ls::data::CutMix{.classes = 10}});
//   ls::data::DataLoader loader(mixed, {.batch_size = 128, .shuffle = true});   // cross_entropy takes its targets
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include <lockstep/data/dataset.h>
#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {
namespace data {

/// l * example + (1 - l) * the example before it in the batch (the last one before the first), l ~ Beta(alpha, alpha);
/// each step rounded.  Zhang et al. (2018); torchvision: v2.MixUp.
struct MixUp {
  std::int64_t classes = 0;
  double alpha = 1;
};

/// A rectangle of the pictures is that of the example before; it has the share 1 - l of the area, l ~ Beta(alpha,
/// alpha), its middle is anywhere, and labels are mixed by the part of it that lies inside. Yun et al. (2019);
/// torchvision: v2.CutMix.
struct CutMix {
  std::int64_t classes = 0;
  double alpha = 1;
};

using Mix = std::variant<MixUp, CutMix>;

/// `dataset` with its batches mixed: inputs f32 (CutMix: [n, ..., height, width], of any dtype), targets f32 [n,
/// classes] from classes [n] (i64 or i32) or, mixed as they are, from f32 [n, classes]. Of several ways each batch
/// takes one at random (torchvision: RandomChoice). What is drawn depends on the seed, the epoch and the batch's first
/// index. ValueError for no or wrong ways; fetching throws ShapeError and DTypeError for batches that do not fit,
/// IndexError for a class outside.
LOCKSTEP_API DatasetPtr mix(DatasetPtr dataset, std::vector<Mix> ways, CallSite site = {});

}  // namespace data
}  // namespace v0
}  // namespace lockstep
