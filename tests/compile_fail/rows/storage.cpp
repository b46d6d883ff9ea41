// What elements in memory mean: the templates of the header, for a float and an integer.
#include "kernels/storage.h"

namespace lockstep {
inline namespace v0 {

template float decode(DType, std::uint64_t);
template std::int64_t decode(DType, std::uint64_t);

}  // namespace v0
}  // namespace lockstep
