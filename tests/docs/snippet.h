// Runs a block of C++ of a page (snippets.cmake) and holds what it prints against the page.
#pragma once

#include <lockstep/lockstep.h>

#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace ls = lockstep;

namespace lockstep {

inline void run_snippet(void (*snippet)(), const std::string& expected = {}) {
  testing::internal::CaptureStdout();
  std::string thrown;
  try {
    snippet();
  } catch (const std::exception& error) {
    thrown = error.what();
  }
  std::cout << std::flush;
  std::string printed = testing::internal::GetCapturedStdout();
  ASSERT_EQ(thrown, "");
  if (!printed.empty() && printed.back() != '\n') printed += '\n';
  EXPECT_EQ(printed, expected);
}

}  // namespace lockstep
