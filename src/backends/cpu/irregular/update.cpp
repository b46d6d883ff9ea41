// Updates: the rest is copied if it is elsewhere, then the region is written.
#include "backends/cpu/irregular/copies.h"
#include "backends/cpu/irregular/irregular.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

class UpdateExecutable final : public Executable {
 public:
  UpdateExecutable(const UpdateKernel& kernel, Isa isa)
      : kernel_(kernel), isa_(isa), region_(kernel.values, kernel.region.strides, kernel.region.offset, isa) {}

  void run(const Binding& binding) const override {
    std::byte* out = slot_of(binding, kernel_.out);
    const std::byte* self = slot_of(binding, kernel_.self);
    if (self != out) {
      copy_bytes(out, self, static_cast<std::size_t>(kernel_.elements) * size_of(kernel_.dtype), convert_table(isa_));
    }
    region_.run(binding, out + start_of(kernel_, binding) * static_cast<std::int64_t>(size_of(kernel_.dtype)));
  }

 private:
  UpdateKernel kernel_;
  Isa isa_;
  Copy region_;
};

}  // namespace
}  // namespace irregular

std::unique_ptr<Executable> compile_update(const UpdateKernel& kernel, Isa isa) {
  return std::make_unique<irregular::UpdateExecutable>(kernel, isa);
}

}  // namespace v0
}  // namespace lockstep
