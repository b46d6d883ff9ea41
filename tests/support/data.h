// Where tests find files. Small ones stand in tests/data; real weights and pictures, which the repository does not
// hold, stand in a folder that $LOCKSTEP_TEST_DATA names (../shared/data beside the checkout otherwise).
#pragma once

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace lockstep::test {

/// A file or folder of the large test data, e.g. "cifar10/test_lossless_0000_0699.bin". It need not exist.
std::filesystem::path test_data(const std::string& relative);

/// The same of what tools make and is not there otherwise: in that folder, or in build/data (scripts/make_test_data).
std::filesystem::path made_data(const std::string& relative);

/// A file or folder of tests/data.
std::filesystem::path repository_data(const std::string& relative);

/// Whether tests must not skip: $CI is "true".
bool must_have_data();

}  // namespace lockstep::test

/// For the first line of a test that needs `path`: a user without the data sees the test skipped, a continuous build
/// sees it fail.
#define LOCKSTEP_REQUIRE_DATA(path)                                                             \
  if (!std::filesystem::exists(path)) {                                                         \
    if (::lockstep::test::must_have_data()) FAIL() << "the test data lack " << (path);          \
    GTEST_SKIP() << "needs " << (path) << "; set LOCKSTEP_TEST_DATA to the folder of the data"; \
  }                                                                                             \
  static_assert(true)
