// What a GPU does with Lockstep's kernels: one JSON object per line, {"name", "seconds", "bytes", "flops"}, where
// seconds is the median time of one repetition. Work is started many times and waited for once.
// bench/peers/gpu_compare.py times PyTorch under the same names and prints both.
//
//   gpu_bench [device] [filter] [folder]     default: cuda:0, everything; the filter is a part of the names; in the
//                                            folder goes a trace of one more repetition of each, its sums to stderr
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>

#include "backends/backend.h"
#include "support/limited_driver.h"

namespace ls = lockstep;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Bench {
 public:
  Bench(ls::Device device, std::string filter, std::string traces)
      : device_(device),
        filter_(std::move(filter)),
        traces_(std::move(traces)),
        backend_(ls::backend_of(device)),
        mark_(backend_.allocate(4)) {}

  ls::Device device() const { return device_; }

  /// Waits for everything that was started.
  void wait() {
    std::uint32_t word = 0;
    backend_.download(&word, *mark_, 4);
  }

  bool wants(const std::string& name) const { return name.find(filter_) != std::string::npos; }

  /// `prepare` makes the operands and returns what is repeated.
  void run(const std::string& name, double bytes, double flops, const std::function<std::function<void()>()>& prepare) {
    if (!wants(name)) return;
    try {
      const std::function<void()> step = prepare();
      wait();
      auto start = Clock::now();
      step();
      wait();
      const double first = seconds_since(start);
      step();
      wait();
      start = Clock::now();
      step();
      wait();
      const double once = seconds_since(start);
      const int repeats = static_cast<int>(std::clamp(0.05 / once, 1.0, 200.0));
      std::vector<double> times;
      start = Clock::now();
      while (times.size() < 3 || (seconds_since(start) < 0.5 && times.size() < 15)) {
        const auto begin = Clock::now();
        for (int i = 0; i < repeats; ++i) step();
        wait();
        times.push_back(seconds_since(begin) / repeats);
        if (seconds_since(start) > 4) break;
      }
      std::sort(times.begin(), times.end());
      std::printf("{\"name\": \"%s\", \"seconds\": %.9g, \"bytes\": %.0f, \"flops\": %.0f, \"first\": %.4f}\n",
                  name.c_str(), times[times.size() / 2], bytes, flops, first);
      if (!traces_.empty()) trace(name, step);
    } catch (const std::exception& error) {
      std::string text = error.what();
      std::replace(text.begin(), text.end(), '"', '\'');
      std::replace(text.begin(), text.end(), '\n', ' ');
      std::printf("{\"name\": \"%s\", \"error\": \"%s\"}\n", name.c_str(), text.c_str());
    }
    std::fflush(stdout);
  }

 private:
  void trace(const std::string& name, const std::function<void()>& step) {
    ls::Trace trace(traces_ + "/" + name + ".json");
    step();
    wait();
    trace.finish();
    for (const ls::TraceTotal& total : trace.totals()) {
      std::fprintf(stderr, "%s %9.3f ms %5llu x %s\n", name.c_str(), total.seconds * 1e3,
                   static_cast<unsigned long long>(total.count), total.what.c_str());
    }
  }

  ls::Device device_;
  std::string filter_;
  std::string traces_;
  ls::Backend& backend_;
  ls::BufferRef mark_;
};

ls::Tensor random(Bench& bench, const ls::Shape& shape, ls::DType dtype = ls::DType::f32) {
  return ls::randn(shape, {.dtype = ls::DType::f32, .device = bench.device()}).to(dtype).eval();
}

void rows(Bench& bench, const std::string& suffix, ls::DType dtype) {
  const double size = dtype == ls::DType::f32 ? 4 : 2;
  constexpr double kElements = 16384.0 * 4096;
  const ls::Shape shape{16384, 4096};
  bench.run("multiply" + suffix, 2 * size * kElements, 0, [&] {
    const ls::Tensor x = random(bench, shape, dtype);
    return [=] {
      const ls::Tensor y = x * 2.0;
      y.eval();
    };
  });
  bench.run("gelu_add_mul" + suffix, 3 * size * kElements, 0, [&] {
    const ls::Tensor x = random(bench, shape, dtype);
    const ls::Tensor r = random(bench, shape, dtype);
    const ls::Tensor b = random(bench, {4096}, dtype);
    return [=] {
      const ls::Tensor y = ls::gelu(x + b) * r;
      y.eval();
    };
  });
  bench.run("layer_norm_chain" + suffix, 3 * size * kElements, 0, [&] {
    const ls::Tensor x = random(bench, shape, dtype);
    const ls::Tensor r = random(bench, shape, dtype);
    const ls::Tensor b = random(bench, {4096}, dtype);
    const ls::Tensor w = random(bench, {4096}, dtype);
    return [=] {
      const ls::Tensor y = ls::layer_norm(ls::gelu(x + b) + r, {4096}, w, b);
      y.eval();
    };
  });
  bench.run("softmax" + suffix, 2 * size * kElements, 0, [&] {
    const ls::Tensor x = random(bench, shape, dtype);
    return [=] { ls::softmax(x, -1).eval(); };
  });
  bench.run("sum" + suffix, size * kElements, 0, [&] {
    const ls::Tensor x = random(bench, shape, dtype);
    return [=] { ls::sum(x).eval(); };
  });
  bench.run("sum_rows" + suffix, size * kElements, 0, [&] {
    const ls::Tensor x = random(bench, shape, dtype);
    return [=] { ls::sum(x, {1}).eval(); };
  });
  bench.run("sum_columns" + suffix, size * kElements, 0, [&] {
    const ls::Tensor x = random(bench, shape, dtype);
    return [=] { ls::sum(x, {0}).eval(); };
  });
  bench.run("softmax_short" + suffix, 2 * size * kElements, 0, [&] {
    const ls::Tensor x = random(bench, {1048576, 64}, dtype);
    return [=] { ls::softmax(x, -1).eval(); };
  });
  bench.run("matvec_8192" + suffix, size * 8192 * 8192, 0, [&] {
    const ls::Tensor a = random(bench, {8192, 8192}, dtype);
    const ls::Tensor x = random(bench, {8192, 1}, dtype);
    return [=] { ls::matmul(a, x).eval(); };
  });
  bench.run("vecmat_8192" + suffix, size * 8192 * 8192, 0, [&] {
    const ls::Tensor a = random(bench, {8192, 8192}, dtype);
    const ls::Tensor x = random(bench, {1, 8192}, dtype);
    return [=] { ls::matmul(x, a).eval(); };
  });
}

void adam(Bench& bench) {
  constexpr std::int64_t kParameters = 100'000'000;
  bench.run("adam_100m", 7 * 4.0 * kParameters, 0, [&] {
    struct State {
      ls::Tensor p, g, m, v;
      int step = 0;
    };
    auto state = std::make_shared<State>();
    for (ls::Tensor* t : {&state->p, &state->g, &state->m, &state->v}) *t = random(bench, {kParameters});
    state->v = (state->v * state->v).eval();
    return [state] {
      ++state->step;
      const double correction = 1.0 - 1.0 / (state->step + 1);
      const ls::Tensor m = state->m * 0.9 + state->g * 0.1;
      const ls::Tensor v = state->v * 0.999 + state->g * state->g * 0.001;
      const ls::Tensor p = state->p - m * (1e-3 / correction) / (ls::sqrt(v) + 1e-8);
      state->m = m;
      state->v = v;
      state->p = p;
      p.eval();
    };
  });
}

void products(Bench& bench) {
  for (const std::int64_t n : {512, 1024, 2048, 4096, 8192}) {
    const auto size = static_cast<double>(n);
    bench.run("matmul_" + std::to_string(n), 12 * size * size, 2 * size * size * size, [&] {
      const ls::Tensor a = random(bench, {n, n});
      const ls::Tensor b = random(bench, {n, n});
      return [=] { ls::matmul(a, b).eval(); };
    });
  }
  bench.run("linear_4096", 0, 2 * 4096.0 * 4096 * 4096, [&] {
    const ls::Tensor x = random(bench, {4096, 4096});
    const ls::Tensor w = random(bench, {4096, 4096});
    const ls::Tensor b = random(bench, {4096});
    return [=] { ls::linear(x, w, b).eval(); };
  });
  bench.run("matmul_4096_bf16", 0, 2 * 4096.0 * 4096 * 4096, [&] {
    const ls::Tensor a = random(bench, {4096, 4096}, ls::DType::bf16);
    const ls::Tensor b = random(bench, {4096, 4096}, ls::DType::bf16);
    return [=] { ls::matmul(a, b).eval(); };
  });
  for (const ls::Numerics numerics : {ls::Numerics::blocked, ls::Numerics::fast}) {
    const std::string suffix = std::string("_bf16_") + ls::name_of(numerics);
    for (const std::int64_t n : {1024, 2048, 4096, 8192}) {
      const auto size = static_cast<double>(n);
      bench.run("matmul_" + std::to_string(n) + suffix, 0, 2 * size * size * size, [&] {
        const ls::Tensor a = random(bench, {n, n}, ls::DType::bf16);
        const ls::Tensor b = random(bench, {n, n}, ls::DType::bf16);
        return [=] {
          const ls::NumericsScope scope(numerics);
          ls::matmul(a, b).eval();
        };
      });
    }
    bench.run("linear_16x4096x4096" + suffix, 0, 2 * 16.0 * 4096 * 4096, [&] {
      const ls::Tensor x = random(bench, {16, 4096}, ls::DType::bf16);
      const ls::Tensor w = random(bench, {4096, 4096}, ls::DType::bf16);
      return [=] {
        const ls::NumericsScope scope(numerics);
        ls::linear(x, w).eval();
      };
    });
    bench.run("linear_2048x4096x11008" + suffix, 0, 2 * 2048.0 * 4096 * 11008, [&] {
      const ls::Tensor x = random(bench, {2048, 4096}, ls::DType::bf16);
      const ls::Tensor w = random(bench, {11008, 4096}, ls::DType::bf16);
      return [=] {
        const ls::NumericsScope scope(numerics);
        ls::linear(x, w).eval();
      };
    });
  }
  for (const std::int64_t width : {64, 128}) {
    bench.run("attention_8x16x2048x" + std::to_string(width) + "_bf16_fast", 0,
              4.0 * 8 * 16 * 2048 * 2048 * static_cast<double>(width), [&] {
                const ls::Tensor q = random(bench, {8, 16, 2048, width}, ls::DType::bf16);
                const ls::Tensor k = random(bench, {8, 16, 2048, width}, ls::DType::bf16);
                const ls::Tensor v = random(bench, {8, 16, 2048, width}, ls::DType::bf16);
                return [=] {
                  const ls::NumericsScope scope(ls::Numerics::fast);
                  ls::scaled_dot_product_attention(q, k, v).eval();
                };
              });
  }
  bench.run("matmul_batched_64x512", 0, 64 * 2 * 512.0 * 512 * 512, [&] {
    const ls::Tensor a = random(bench, {64, 512, 512});
    const ls::Tensor b = random(bench, {64, 512, 512});
    return [=] { ls::matmul(a, b).eval(); };
  });
  struct Conv {
    const char* name;
    std::int64_t images, channels, side, outputs, kernel, stride, groups;
  };
  for (const Conv& c :
       {Conv{"conv3x3_64_56_b32", 32, 64, 56, 64, 3, 1, 1}, Conv{"conv1x1_256_64_56_b32", 32, 256, 56, 64, 1, 1, 1},
        Conv{"conv1x1_512_2048_7_b32", 32, 512, 7, 2048, 1, 1, 1}, Conv{"conv3x3_512_7_b32", 32, 512, 7, 512, 3, 1, 1},
        Conv{"conv3x3_512_7_b1", 1, 512, 7, 512, 3, 1, 1}, Conv{"conv7x7_3_224_b32", 32, 3, 224, 64, 7, 2, 1},
        Conv{"depthwise3x3_256_56_b32", 32, 256, 56, 256, 3, 1, 256}}) {
    const std::int64_t out = (c.side - 1) / c.stride + 1;
    const double flops =
        2.0 * static_cast<double>(c.images * c.outputs * out * out * c.channels / c.groups * c.kernel * c.kernel);
    bench.run(c.name, 0, flops, [&] {
      const ls::Tensor x = random(bench, {c.images, c.channels, c.side, c.side});
      const ls::Tensor w = random(bench, {c.outputs, c.channels / c.groups, c.kernel, c.kernel});
      const ls::ConvOptions options{.stride = {c.stride}, .padding = {c.kernel / 2}, .groups = c.groups};
      return [=] { ls::conv2d(x, w, std::nullopt, options).eval(); };
    });
  }
}

// Blocked products by the instructions of other devices: matmul_4096_bf16_blocked_by_fragments (mma.sync), _by_dots
// (dp4a, OpSDot), _by_words.
void products_of_bytes(ls::Device device, const std::string& filter, const std::string& traces) {
  for (const ls::test::ByteProducts& products : ls::test::kByteProducts) {
    for (const std::int64_t n : {1024, 4096}) {
      const std::string name = "matmul_" + std::to_string(n) + "_bf16_blocked_by_" + products.name;
      if (name.find(filter) == std::string::npos) continue;
      const std::optional<ls::Device> limited = ls::test::device_with(products, device);
      if (!limited) continue;
      Bench bench(*limited, filter, traces);
      const auto size = static_cast<double>(n);
      bench.run(name, 0, 2 * size * size * size, [&] {
        const ls::Tensor a = random(bench, {n, n}, ls::DType::bf16);
        const ls::Tensor b = random(bench, {n, n}, ls::DType::bf16);
        return [=] {
          const ls::NumericsScope scope(ls::Numerics::blocked);
          ls::matmul(a, b).eval();
        };
      });
    }
  }
}

// Weights of 8-bit floats: a row of activations times decoded ones, and many rows in fast numerics.
void float_products(Bench& bench) {
  constexpr std::int64_t kShapes[][3] = {{8192, 8192, 8192}, {4096, 4096, 4096}, {1024, 14336, 4096}, {1, 8192, 8192}};
  for (const ls::Encoding encoding : {ls::Encoding::e4m3, ls::Encoding::e4m3_rows, ls::Encoding::e4m3_squares}) {
    for (const auto& [rows, outputs, inputs] : kShapes) {
      const ls::Numerics numerics = rows == 1 ? ls::Numerics::exact : ls::Numerics::fast;
      const std::string name = "linear_" + std::to_string(outputs) + "x" + std::to_string(inputs) + "_" +
                               std::string(ls::name_of(encoding)) + "_" + ls::name_of(numerics) + "_b" +
                               std::to_string(rows);
      if (!bench.wants(name)) continue;
      const std::size_t bytes = ls::encoded_bytes(encoding, ls::DType::f32, outputs * inputs);
      std::vector<std::uint8_t> blocks(bytes);
      std::uint32_t state = 1;
      for (std::uint8_t& byte : blocks)  // numbers all
        byte = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24) & 0xbf;
      const float scale = 0.01F;
      for (std::size_t at = 0; at < bytes; at += ls::info_of(encoding).bytes)
        std::memcpy(&blocks[at], &scale, sizeof scale);
      const ls::Tensor w = ls::Tensor::from_blocks(blocks.data(), bytes, {outputs, inputs}, encoding, bench.device());
      const double flops = 2.0 * static_cast<double>(rows * outputs * inputs);
      bench.run(name, static_cast<double>(bytes), flops, [&, rows = rows, inputs = inputs] {
        const ls::Tensor x = random(bench, {rows, inputs}, rows == 1 ? ls::DType::f32 : ls::DType::bf16);
        return [=] {
          const ls::NumericsScope scope(numerics);
          ls::linear(x, w).eval();
        };
      });
    }
  }
}

// A row, a few, and 64, times quantised weights in q8 numerics; a row times weights that are decoded.
void packed_products(Bench& bench) {
  constexpr std::int64_t kSize = 8192;
  for (const ls::Encoding encoding : {ls::Encoding::q8_0, ls::Encoding::q4_0, ls::Encoding::q4_k, ls::Encoding::q6_k}) {
    const auto bytes = static_cast<double>(ls::encoded_bytes(encoding, ls::DType::f32, kSize * kSize));
    const ls::EncodingInfo& info = ls::info_of(encoding);
    const std::string name = "linear_8192_" + std::string(info.name);
    if (!bench.wants("linear_8192") && !bench.wants(name)) continue;
    std::vector<std::uint8_t> blocks(static_cast<std::size_t>(bytes));
    std::uint32_t state = 1;
    for (std::uint8_t& byte : blocks) byte = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    for (std::size_t at = info.first_half; at < blocks.size(); at += info.bytes) {
      for (std::size_t h = 0; h < info.halves; ++h) blocks[at + 2 * h + 1] = 0x24;  // scales of about 0.016
    }
    const ls::Tensor w =
        ls::Tensor::from_blocks(blocks.data(), blocks.size(), {kSize, kSize}, encoding, bench.device());
    for (const ls::Numerics numerics : {ls::Numerics::q8, ls::Numerics::exact}) {
      for (const std::int64_t rows : {1, 4, 8, 64}) {
        if (numerics == ls::Numerics::exact && rows != 1 && rows != 64) continue;
        const double flops = 2.0 * static_cast<double>(rows * kSize * kSize);
        const std::string suffix = std::string("_") + ls::name_of(numerics) + "_b" + std::to_string(rows);
        bench.run(name + suffix, bytes, flops, [&] {
          const ls::Tensor x = random(bench, {rows, kSize});
          return [=] {
            const ls::NumericsScope scope(numerics);
            ls::linear(x, w).eval();
          };
        });
      }
    }
  }
}

void models(Bench& bench) {
  const auto& architecture = ls::models::architecture("resnet50");
  for (const std::int64_t images : {1, 32}) {
    bench.run("resnet50_b" + std::to_string(images), 0, 8.2e9 * static_cast<double>(images), [&] {
      std::shared_ptr<ls::nn::Layer> model = architecture.create(architecture.classes);
      model->to(bench.device());
      model->eval();
      const ls::Tensor x = random(bench, {images, 3, 224, 224});
      return [=] {
        const ls::NoGrad no_grad;
        model->forward(x).eval();
      };
    });
  }
  bench.run("resnet50_b256_bf16_fast", 0, 8.2e9 * 256, [&] {
    std::shared_ptr<ls::nn::Layer> model = architecture.create(architecture.classes);
    model->to(bench.device());
    model->to(ls::DType::bf16);
    model->eval();
    const ls::Tensor x = random(bench, {256, 3, 224, 224}, ls::DType::bf16);
    return [=] {
      const ls::NoGrad no_grad;
      const ls::NumericsScope scope(ls::Numerics::fast);
      model->forward(x).eval();
    };
  });
  for (const bool fast : {false, true})
    bench.run(fast ? "resnet50_train_b64_bf16_fast" : "resnet50_train_b64", 0, 3 * 8.2e9 * 64, [&] {
      std::shared_ptr<ls::nn::Layer> model = architecture.create(architecture.classes);
      model->to(bench.device());
      model->train();
      const ls::Tensor x = random(bench, {64, 3, 224, 224});
      const ls::Tensor y = ls::randint(0, 1000, {64}).to(bench.device()).eval();
      return [=] {
        const ls::NumericsScope scope(fast ? ls::Numerics::fast : ls::Numerics::exact);
        const ls::Autocast cast(fast ? ls::DType::bf16 : ls::DType::f32);
        std::vector<ls::Tensor> leaves;
        for (ls::nn::Parameter p : model->parameters()) {
          if (!ls::is_tracked(p.tensor())) p.set(ls::requires_grad(p.tensor()));
          leaves.push_back(p.tensor());
        }
        const ls::Tensor loss = ls::cross_entropy(model->forward(x), y);
        const std::vector<ls::Tensor> slopes = ls::gradients(loss, leaves);
        std::size_t i = 0;
        for (ls::nn::Parameter p : model->parameters()) {
          p.set(ls::detach(leaves[i]) - slopes[i] * 0.01);
          ++i;
        }
        loss.eval();
      };
    });
}

// MobileSAM: the embedding of a picture, and a click on it.
void segmentation(Bench& bench) {
  const auto model_of = [&] {
    auto model = std::make_shared<ls::models::Sam>();
    model->to(bench.device());
    model->eval();
    return model;
  };
  bench.run("mobile_sam_encoder", 0, 0, [&] {
    const auto model = model_of();
    const ls::Tensor x = random(bench, {1, 3, 1024, 1024});
    return [=] {
      const ls::NoGrad no_grad;
      model->image_encoder().forward(x).eval();
    };
  });
  bench.run("mobile_sam_prompt", 0, 0, [&] {
    const auto model = model_of();
    const ls::NoGrad no_grad;
    const ls::models::SamEmbedding embedding{.features = random(bench, {1, 256, 64, 64}),
                                             .positions = model->prompt_encoder.grid_positions().eval(),
                                             .frame = model->frame(1024, 768)};
    return [=] {
      const ls::NoGrad none;
      model->predict(embedding, {.points = {{400, 300}}});
    };
  });
}

void launches(Bench& bench) {
  // Per launch, from recording an op to the launched kernel; one kernel each.
  bench.run("launch", 0, 0, [&] {
    const ls::Tensor x = random(bench, {16});
    return [=] {
      for (int i = 0; i < 100; ++i) {
        const ls::Tensor y = x * 2.0;
        y.eval();
      }
    };
  });
  // 64 dependent kernels in one plan.
  bench.run("plan_of_64", 0, 0, [&] {
    const ls::Tensor x = random(bench, {64, 64});
    return [=] {
      ls::Tensor y = x;
      for (int i = 0; i < 64; ++i) y = ls::softmax(y, i % 2);
      y.eval();
    };
  });
}

}  // namespace

int main(int count, char** arguments) {
  const std::string filter = count > 2 ? arguments[2] : "";
  try {
    Bench bench(ls::Device::parse(count > 1 ? arguments[1] : "cuda:0"), filter, count > 3 ? arguments[3] : "");
    ls::manual_seed(1);
    launches(bench);
    rows(bench, "", ls::DType::f32);
    rows(bench, "_bf16", ls::DType::bf16);
    rows(bench, "_f16", ls::DType::f16);
    adam(bench);
    products(bench);
    products_of_bytes(bench.device(), filter, count > 3 ? arguments[3] : "");
    packed_products(bench);
    float_products(bench);
    models(bench);
    segmentation(bench);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
