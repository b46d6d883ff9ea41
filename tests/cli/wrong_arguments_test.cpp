// Random wrong arguments: recorded cases with their tensors and attributes changed. Every op either works or throws an
// error of a documented class; it never crashes, hangs or throws anything else.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>

#include <lockstep/lockstep.h>

#include "cli/case_file.h"
#include "cli/recorded_ops/find.h"
#include "support/data.h"
#include "support/long_forms.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

using nlohmann::json;

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  cli::Case changed(const cli::Case& original) {
    cli::Case changed = original;
    changed.outputs.clear();
    for (int i = number(1, 3); i > 0; --i) {
      if (!changed.inputs.empty() && (changed.attributes.empty() || number(0, 1) == 0)) {
        change_input(changed);
      } else {
        change_attribute(changed.attributes);
      }
    }
    return changed;
  }

 private:
  int number(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  std::int64_t wild_integer() {
    constexpr std::int64_t kWild[] = {0,
                                      1,
                                      -1,
                                      2,
                                      3,
                                      -2,
                                      7,
                                      9,
                                      -9,
                                      100,
                                      1 << 20,
                                      std::int64_t{1} << 40,
                                      std::numeric_limits<std::int64_t>::max(),
                                      std::numeric_limits<std::int64_t>::min()};
    return kWild[number(0, std::size(kWild) - 1)];
  }
  double wild_number() {
    constexpr double kWild[] = {0,
                                1,
                                -1,
                                0.5,
                                -2.5,
                                1e-30,
                                1e300,
                                -1e300,
                                1e18,
                                std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN()};
    return kWild[number(0, std::size(kWild) - 1)];
  }

  Shape wild_shape() {
    Shape shape;
    for (int d = number(0, kMaxRank); d > 0; --d) shape.push_back(number(0, 3));
    return shape;
  }

  void change_input(cli::Case& changed) {
    cli::NamedTensor& input =
        changed.inputs[static_cast<std::size_t>(number(0, static_cast<int>(changed.inputs.size()) - 1))];
    Tensor& x = input.tensor;
    constexpr DType kTypes[] = {DType::boolean, DType::u8,  DType::i8,   DType::i32, DType::u32,
                                DType::i64,     DType::f16, DType::bf16, DType::f32, DType::f64};
    switch (number(0, 7)) {
      case 0: x = random_tensor(wild_shape(), x.dtype(), random_()); break;
      case 1: x = random_tensor(x.shape(), kTypes[number(0, std::size(kTypes) - 1)], random_(), {}, true); break;
      case 2: x = x.to(Device{DeviceKind::ref, 0}); break;
      case 3: changed.inputs.pop_back(); break;
      case 4: changed.inputs.push_back({"more", random_tensor(wild_shape(), DType::f32, random_())}); break;
      case 5:
        x = x.rank() == 0 ? x : x.slice(number(0, x.rank() - 1), {.start = number(0, 3), .step = number(1, 2)});
        break;
      case 6: x = x.rank() == kMaxRank ? x.flatten() : x.unsqueeze(0); break;
      default: x = random_tensor(x.shape(), x.dtype(), random_(), {}, true);
    }
  }

  json wild_value(const json& like) {
    if (number(0, 9) == 0) return nullptr;
    if (like.is_boolean()) return number(0, 1) == 0;
    if (like.is_number_integer()) return wild_integer();
    if (like.is_number()) return wild_number();
    if (like.is_string()) return number(0, 1) == 0 ? "" : "no such thing";
    json list = json::array();
    for (int i = number(0, 9); i > 0; --i)
      list.push_back(number(0, 2) == 0 ? wild_integer() : std::int64_t{number(0, 3)});
    return list;
  }

  void change_attribute(json& attributes) {
    if (attributes.empty()) return;
    auto chosen = attributes.begin();
    std::advance(chosen, number(0, static_cast<int>(attributes.size()) - 1));
    if (chosen->is_array() && !chosen->empty() && number(0, 1) == 0) {
      json& one = (*chosen)[static_cast<std::size_t>(number(0, static_cast<int>(chosen->size()) - 1))];
      one = wild_value(one);
    } else {
      *chosen = wild_value(*chosen);
    }
  }

  std::mt19937_64 random_;
};

// Calls the op and computes small results. Returns the message of an error of an undocumented class.
std::string surprise(const cli::Case& wrong) {
  constexpr std::int64_t kComputed = 1 << 16;
  try {
    cli::Arguments arguments(wrong, Device{});
    for (const Tensor& result : cli::find_recorded_op(wrong.op).call(arguments)) {
      if (result.numel() <= kComputed) result.eval();
    }
  } catch (const Error&) {
  } catch (const cli::Unsupported&) {
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// A long transform of every row of an operand: right, and hours of work under a sanitizer.
bool is_much_work(const cli::Case& wrong) {
  const auto n = wrong.attributes.find("n");
  return wrong.op.starts_with("fft.") && n != wrong.attributes.end() && n->is_number_integer() && *n == 1 << 20;
}

void try_all(const std::filesystem::path& folder, int first, int last) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    const cli::Case original = cli::read_case(path);
    for (int seed = first; seed < last; ++seed) {
      Mutator mutator(static_cast<std::uint64_t>(seed));
      const cli::Case wrong = mutator.changed(original);
      if (is_much_work(wrong)) continue;
      SCOPED_TRACE(path + " seed " + std::to_string(seed) + " " + wrong.op + " " + wrong.attributes.dump());
      EXPECT_EQ(surprise(wrong), "");
    }
  }
}

TEST(WrongArguments, GiveErrorsOfDocumentedClasses) {
  try_all(repository_data("cases"), 0, enough_of(6));
}

TEST(WrongArguments, MoreOfThem) {
  try_all(repository_data("cases"), 6, long_forms() ? 30 : 14);
}

}  // namespace
}  // namespace lockstep::test
