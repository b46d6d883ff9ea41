#include "backends/reference/backend.h"

#include <gtest/gtest.h>

#include <limits>

#include <lockstep/error.h>

namespace lockstep {
namespace {

TEST(ReferenceBackend, MemoryIsAlignedAndRoundTrips) {
  const auto backend = make_reference_backend();
  for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{64}, std::size_t{1000}}) {
    const BufferRef buffer = backend->allocate(bytes);
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(buffer->device(), (Device{DeviceKind::ref, 0}));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 64, 0U);
    const std::vector<std::byte> sent(bytes, std::byte{42});
    std::vector<std::byte> received(bytes);
    backend->upload(*buffer, sent.data(), bytes);
    backend->download(received.data(), *buffer, bytes);
    EXPECT_EQ(received, sent);
  }
}

TEST(ReferenceBackend, TooMuchMemoryIsAnError) {
  const auto backend = make_reference_backend();
  EXPECT_THROW(backend->allocate(std::numeric_limits<std::size_t>::max()), OutOfMemoryError);
  EXPECT_THROW(backend->allocate(std::numeric_limits<std::size_t>::max() / 4), OutOfMemoryError);
}

}  // namespace
}  // namespace lockstep
