// A kernel case from a file, as the command reads it.
#pragma once

#include <gtest/gtest.h>

#include <lockstep/io/safetensors.h>

#include "graph/kernel_case.h"
#include "graph/kernel_record.h"

namespace lockstep::test {

inline graph::KernelCase read_case(const std::string& path) {
  const io::SafetensorsReader reader(path);
  const auto bytes = [&](const std::string& name) -> std::optional<graph::Bytes> {
    for (const io::TensorEntry& entry : reader.entries()) {
      if (entry.name != name) continue;
      const Tensor tensor = reader.load(entry);
      graph::Bytes result(static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype()));
      if (!result.empty()) tensor.read_bytes(result.data());
      return result;
    }
    return std::nullopt;
  };
  return graph::parse_case(reader.metadata(), bytes, path);
}

inline std::vector<graph::Bytes> expected_of(const graph::KernelCase& work) {
  std::vector<graph::Bytes> expected;
  for (const graph::KernelCase::Result& result : work.results) expected.push_back(result.expected);
  return expected;
}

/// Two recordings kept kernel `number`: what it read is equal, and one element of what it made differs, at `position`.
inline void expect_parts_at(const std::string& a, const std::string& b, std::size_t number, std::int64_t position) {
  const auto kernel = static_cast<std::int64_t>(number);
  const graph::KernelCase one = read_case(graph::case_file_of(a, kernel));
  const graph::KernelCase other = read_case(graph::case_file_of(b, kernel));
  ASSERT_EQ(one.values.size(), other.values.size());
  for (std::size_t i = 0; i < one.values.size(); ++i) EXPECT_EQ(one.values[i].data, other.values[i].data) << i;
  const auto found = graph::compare_results(one, expected_of(one), expected_of(other));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->element.count, 1);
  EXPECT_EQ(found->element.position, position);
}

}  // namespace lockstep::test
