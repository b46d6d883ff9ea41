// The templates of the header, which elsewhere only large sources instantiate.
#include "backends/cpu/contraction/decode.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

template float decode_fill(DType, std::uint64_t, bool);
template std::int64_t decode_fill(DType, std::uint64_t, bool);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
