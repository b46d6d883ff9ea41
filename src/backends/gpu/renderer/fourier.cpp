// Fourier transforms: a launch that reads the lines, one per stage, in which a thread does one butterfly, and one that
// writes results. In between numbers are pairs in scratch memory, which has two places for all of them.
#include <array>
#include <utility>

#include "backends/gpu/renderer/irregular.h"
#include "backends/gpu/renderer/kinds.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

/// The names of two variables, or other expressions without operators.
struct Complex {
  std::string re, im;
  Complex swapped() const { return {im, re}; }
};

/// Statements of complex arithmetic: every result is a variable.
class Arithmetics {
 public:
  Arithmetics(Lines& lines, bool wide) : lines_(lines), wide_(wide) {}

  std::string set(const std::string& expression) {
    const std::string name = fmt::format("r{}", count_++);
    lines_.add("{} {} = {};", declared(), name, expression);
    return name;
  }
  const char* declared() const { return wide_ ? "DOUBLE" : "FLOAT"; }
  std::string zero() const { return wide_ ? "double(0)" : "0.0f"; }
  std::string minus(const std::string& x) {
    return wide_ ? fmt::format("(-{})", x) : set(fmt::format("FROM_BITS(BITS({}) ^ 0x80000000u)", x));
  }
  std::string add(const std::string& x, const std::string& y) {
    return set(wide_ ? fmt::format("{} + {}", x, y) : fmt::format("ADD_EXACT({}, {})", x, y));
  }
  std::string subtract(const std::string& x, const std::string& y) {
    return wide_ ? set(fmt::format("{} - {}", x, y)) : add(x, minus(y));
  }
  std::string multiply(const std::string& x, const std::string& y) {
    return set(wide_ ? fmt::format("{} * {}", x, y) : fmt::format("MUL_EXACT({}, {})", x, y));
  }
  std::string fma_of(const std::string& x, const std::string& y, const std::string& z) const {
    return fmt::format("{}({}, {}, {})", wide_ ? "FMA64" : "FMA_OF_SUMS", x, y, z);
  }
  std::string fma(const std::string& x, const std::string& y, const std::string& z) { return set(fma_of(x, y, z)); }

  Complex add(const Complex& x, const Complex& y) { return {add(x.re, y.re), add(x.im, y.im)}; }
  Complex subtract(const Complex& x, const Complex& y) { return {subtract(x.re, y.re), subtract(x.im, y.im)}; }
  /// x times the root.
  Complex turn(const Complex& x, const Complex& root) {
    return {fma(minus(x.im), root.im, multiply(x.re, root.re)), fma(x.im, root.re, multiply(x.re, root.im))};
  }
  /// x - i y and x + i y.
  Complex ahead(const Complex& x, const Complex& y) { return {add(x.re, y.im), subtract(x.im, y.re)}; }
  Complex behind(const Complex& x, const Complex& y) { return {subtract(x.re, y.im), add(x.im, y.re)}; }

  /// Places of pairs and of roots.
  Complex pair(const std::string& memory, const std::string& at) {
    return {set(load("_AGAIN", memory, fmt::format("2 * ({})", at))),
            set(load("_AGAIN", memory, fmt::format("2 * ({}) + 1", at)))};
  }
  Complex root(std::int64_t block, std::int64_t count, const std::string& at, Words& words) {
    const std::string first = words.int32(block);
    return {set(load("", "table", fmt::format("{} + {}", first, at))),
            set(load("", "table", fmt::format("{} + {} + {}", first, words.int32(count), at)))};
  }
  void store(const std::string& memory, const std::string& at, const Complex& x) {
    store_part(memory, fmt::format("2 * ({})", at), x.re);
    store_part(memory, fmt::format("2 * ({}) + 1", at), x.im);
  }

 private:
  std::string load(const char* again, const std::string& memory, const std::string& at) const {
    return wide_ ? fmt::format("FROM_BITS64(LOAD_U64{}({}, {}))", again, memory, at)
                 : fmt::format("FROM_BITS(LOAD_U32{}({}, {}))", again, memory, at);
  }
  void store_part(const std::string& memory, const std::string& at, const std::string& x) {
    if (wide_) {
      lines_.add("STORE_U64({}, {}, BITS64({}));", memory, at, x);
    } else {
      lines_.add("STORE_U32({}, {}, BITS({}));", memory, at, x);
    }
  }

  Lines& lines_;
  bool wide_;
  int count_ = 0;
};

void butterfly4(Arithmetics& math, Complex& x0, Complex& x1, Complex& x2, Complex& x3) {
  const Complex a = math.add(x0, x2), b = math.subtract(x0, x2), c = math.add(x1, x3), d = math.subtract(x1, x3);
  x0 = math.add(a, c);
  x1 = math.ahead(b, d);
  x2 = math.subtract(a, c);
  x3 = math.behind(b, d);
}

void butterfly8(Arithmetics& math, std::array<Complex, 8>& x, const std::string& h) {
  butterfly4(math, x[0], x[2], x[4], x[6]);
  butterfly4(math, x[1], x[3], x[5], x[7]);
  const std::array<Complex, 4> e = {x[0], x[2], x[4], x[6]};
  const std::array<Complex, 4> o = {x[1], x[3], x[5], x[7]};
  x[0] = math.add(e[0], o[0]);
  x[4] = math.subtract(e[0], o[0]);
  const Complex u = {math.add(o[1].re, o[1].im), math.subtract(o[1].im, o[1].re)};
  x[1] = {math.fma(u.re, h, e[1].re), math.fma(u.im, h, e[1].im)};
  x[5] = {math.fma(math.minus(u.re), h, e[1].re), math.fma(math.minus(u.im), h, e[1].im)};
  x[2] = math.ahead(e[2], o[2]);
  x[6] = math.behind(e[2], o[2]);
  const Complex v = {math.subtract(o[3].im, o[3].re), math.add(o[3].re, o[3].im)};
  x[3] = {math.fma(v.re, h, e[3].re), math.fma(math.minus(v.im), h, e[3].im)};
  x[7] = {math.fma(math.minus(v.re), h, e[3].re), math.fma(v.im, h, e[3].im)};
}

class FourierWriter {
 public:
  FourierWriter(const FourierKernel& kernel, const RenderLimits& limits)
      : kernel_(kernel),
        limits_(limits),
        plan_(kernel.kind, kernel.n),
        wide_(kernel.input.dtype == DType::f64),
        lines_count_(kernel.lines.numel()) {}

  Rendered render() {
    const std::int64_t numbers = lines_count_ * plan_.size;
    check_size(kernel_, 2 * numbers);
    check_size(kernel_, 2 * lines_count_ * plan_.n);
    const auto bytes = 2 * numbers * static_cast<std::int64_t>(size_of(kernel_.input.dtype));
    place_bytes_ = bytes;
    Rendered rendered;
    rendered.scratch_bytes = static_cast<std::size_t>(2 * bytes);
    rendered.launches.push_back(read());
    add_stages(rendered);
    if (plan_.chirped) {
      rendered.launches.push_back(filter());
      add_stages(rendered);
    }
    rendered.launches.push_back(write());
    return rendered;
  }

 private:
  /// A launch whose threads each do one of `items`, by statements that `write` adds.
  template <typename Write> Launch launch(std::int64_t items, Write write) {
    Words words;
    Lines lines;
    Reader reader({kernel_.input}, words);
    Arithmetics math(lines, wide_);
    lines.add("MEMORY table = {};", words.memory(Patch::Kind::address, kernel_.table));
    lines.add("MEMORY place = {};", words.memory(Patch::Kind::scratch, 0, place_ * place_bytes_));
    write(words, lines, reader, math, [&] { open_loop(lines, words, items, limits_); });
    lines.close();
    return launch_of(lines, words, items, limits_);
  }
  Complex root(Arithmetics& math, Words& words, std::int64_t block, std::int64_t count, const std::string& at) const {
    return math.root(block, count, at, words);
  }

  /// An element of the line as a variable.
  std::string element(Words& words, Lines& lines, Reader& reader, Arithmetics& math, const std::string& at,
                      int part) const {
    const std::string name = math.set(math.zero());
    lines.open("{{");
    const std::string place = fmt::format("row * {} + {}", words.int32(plan_.inputs()), at);
    if (plan_.reads_pairs()) {
      lines.add("int from = ({}) * 2 + {};", place, part);
    } else {
      lines.add("int from = {};", place);
    }
    reader.read(lines, 0, "from");
    lines.add("{} = v0;", name);
    lines.close();
    return name;
  }

  Launch read() {
    return launch(lines_count_ * plan_.size, [&](Words& words, Lines& lines, Reader& reader, Arithmetics& math,
                                                 auto open) {
      reader.declare(lines);
      open();
      lines.add("int row = {};", quotient(words, "e", plan_.size, false));
      lines.add("int i = e - row * {};", words.int32(plan_.size));
      const std::string re = math.set(math.zero());
      const std::string im = math.set(math.zero());
      lines.open("if (i < {}) {{", words.int32(plan_.points));
      const auto get = [&](const std::string& at, int part) { return element(words, lines, reader, math, at, part); };
      Complex x = number(words, lines, math, get);
      if (plan_.is_inverse()) x = x.swapped();
      if (plan_.chirped) x = math.turn(x, root(math, words, plan_.chirp, plan_.points, "i"));
      lines.add("{} = {};", re, x.re);
      lines.add("{} = {};", im, x.im);
      lines.close();
      math.store("place", "e", {re, im});
    });
  }
  /// The complex number i.
  template <typename Get> Complex number(Words& words, Lines& lines, Arithmetics& math, Get get) const {
    switch (plan_.kind) {
      case FourierKind::forward:
      case FourierKind::inverse: return {get("i", 0), get("i", 1)};
      case FourierKind::real:
        if (plan_.paired) return {get("2 * i", 0), get("2 * i + 1", 0)};
        return {get("i", 0), math.set(math.zero())};
      case FourierKind::real_inverse: break;
    }
    if (!plan_.paired) {
      lines.add("bool mirrored = i >= {};", words.int32(plan_.inputs()));
      lines.add("int k = SELECT(mirrored, {} - i, i);", words.int32(plan_.n));
      Complex x = {get("k", 0), get("k", 1)};
      lines.add("if (i == 0) {} = {};", x.im, math.zero());
      lines.add("if (mirrored) {} = {};", x.im, math.minus(x.im));
      return x;
    }
    lines.add("int k = {} - i;", words.int32(plan_.points));
    const Complex x = {get("i", 0), get("i", 1)};
    const Complex other = {get("k", 0), get("k", 1)};
    lines.open("if (i == 0) {{");
    lines.add("{} = {};", x.im, math.zero());
    lines.add("{} = {};", other.im, math.zero());
    lines.close();
    const Complex turn = root(math, words, plan_.turns, plan_.points + 1, "i");
    const Complex even = {math.add(x.re, other.re), math.subtract(x.im, other.im)};
    const Complex odd = {math.subtract(x.re, other.re), math.add(x.im, other.im)};
    return {math.fma(math.minus(odd.im), turn.re, math.fma(odd.re, turn.im, even.re)),
            math.fma(odd.im, turn.im, math.fma(odd.re, turn.re, even.im))};
  }

  void add_stages(Rendered& rendered) {
    for (const FourierStage& stage : plan_.stages) {
      rendered.launches.push_back(stage_launch(stage));
      place_ = 1 - place_;
    }
  }
  Launch stage_launch(const FourierStage& stage) {
    const std::int64_t butterflies = plan_.size / stage.radix;
    return launch(lines_count_ * butterflies, [&](Words& words, Lines& lines, Reader&, Arithmetics& math, auto open) {
      lines.add("MEMORY results = {};", words.memory(Patch::Kind::scratch, 0, (1 - place_) * place_bytes_));
      lines.add("int rest = {};", words.int32(stage.rest));
      lines.add("int done = {};", words.int32(stage.done));
      lines.add("int step = {};", words.int32(butterflies));
      open();
      lines.add("int row = {};", quotient(words, "e", butterflies, false));
      lines.add("int b = e - row * step;");
      lines.add("int p = {};", quotient(words, "b", stage.done, false));
      lines.add("int q = b - p * done;");
      lines.add("int from = row * {} + b;", words.int32(plan_.size));
      lines.add("int to = row * {} + p * {} + q;", words.int32(plan_.size), words.int32(stage.radix * stage.done));
      const auto at = [](int j) { return fmt::format("from + {} * step", j); };
      const auto put = [&](const std::string& k, Complex x, bool turned) {
        if (turned && stage.twiddles >= 0) {
          const std::string number = fmt::format("({} - 1) * rest + p", k);
          x = math.turn(x, root(math, words, stage.twiddles, (stage.radix - 1) * stage.rest, number));
        }
        math.store("results", fmt::format("to + {} * done", k), x);
      };
      if (stage.radix % 2 == 1) return odd(stage, words, lines, math, put);
      std::array<Complex, 8> x;
      const auto radix = static_cast<int>(stage.radix);
      for (int j = 0; j < radix; ++j) x[static_cast<std::size_t>(j)] = math.pair("place", at(j));
      if (radix == 2) {
        const Complex low = x[0];
        x[0] = math.add(low, x[1]);
        x[1] = math.subtract(low, x[1]);
      } else if (radix == 4) {
        butterfly4(math, x[0], x[1], x[2], x[3]);
      } else {
        const std::string h =
            math.set(wide_ ? "FROM_BITS64((ULONG(0x3fe6a09eu) << 32) | ULONG(0x667f3bcdu))" : "FROM_BITS(0x3f3504f3u)");
        butterfly8(math, x, h);
      }
      for (int k = 0; k < radix; ++k) put(std::to_string(k), x[static_cast<std::size_t>(k)], k > 0);
    });
  }
  /// Its numbers are read again for each result: there may be more than a thread has registers for.
  template <typename Put>
  void odd(const FourierStage& stage, Words& words, Lines& lines, Arithmetics& math, Put put) const {
    lines.add("int radix = {};", words.int32(stage.radix));
    const Complex first = math.pair("place", "from");
    const auto sums = [&](bool differences) {
      const Complex x = math.pair("place", "from + j * step");
      const Complex y = math.pair("place", "from + (radix - j) * step");
      return std::pair{math.add(x, y), differences ? math.subtract(x, y) : Complex()};
    };
    const Complex all = {math.set(first.re), math.set(first.im)};
    lines.open("for (int j = 1; 2 * j < radix; j++) {{");
    const Complex sum = math.add(all, sums(false).first);
    lines.add("{} = {};", all.re, sum.re);
    lines.add("{} = {};", all.im, sum.im);
    lines.close();
    put("0", all, false);
    lines.open("for (int k = 1; 2 * k < radix; k++) {{");
    const Complex p = {math.set(first.re), math.set(first.im)};
    const Complex q = {math.set(math.zero()), math.set(math.zero())};
    lines.add("int at = 0;");
    lines.open("for (int j = 1; 2 * j < radix; j++) {{");
    lines.add("at = at + k;");
    lines.add("at = SELECT(at >= radix, at - radix, at);");
    const auto [a, b] = sums(true);
    const Complex own = root(math, words, stage.roots, stage.radix, "at");
    lines.add("{} = {};", p.re, math.fma_of(a.re, own.re, p.re));
    lines.add("{} = {};", p.im, math.fma_of(a.im, own.re, p.im));
    lines.add("{} = {};", q.re, math.fma_of(b.re, own.im, q.re));
    lines.add("{} = {};", q.im, math.fma_of(b.im, own.im, q.im));
    lines.close();
    put("k", math.behind(p, q), true);
    lines.add("int other = radix - k;");
    put("other", math.ahead(p, q), true);
    lines.close();
  }

  Launch filter() {
    return launch(lines_count_ * plan_.size, [&](Words& words, Lines& lines, Reader&, Arithmetics& math, auto open) {
      open();
      lines.add("int row = {};", quotient(words, "e", plan_.size, false));
      lines.add("int i = e - row * {};", words.int32(plan_.size));
      const Complex x = math.turn(math.pair("place", "e"), root(math, words, plan_.filter, plan_.size, "i"));
      math.store("place", "e", x.swapped());
    });
  }

  Launch write() {
    const std::int64_t outputs = plan_.outputs();
    return launch(lines_count_ * outputs, [&](Words& words, Lines& lines, Reader&, Arithmetics& math, auto open) {
      lines.add("MEMORY out_at = {};", words.memory(Patch::Kind::address, kernel_.out));
      const std::string bits = words.scalar(kernel_.scale);
      const std::string scale =
          math.set(wide_ ? fmt::format("FROM_BITS64({})", bits) : fmt::format("FROM_BITS(UINT({}))", bits));
      open();
      lines.add("int row = {};", quotient(words, "e", outputs, false));
      lines.add("int k = e - row * {};", words.int32(outputs));
      lines.add("int base = row * {};", words.int32(plan_.size));
      const Complex x = result(words, lines, math);
      const Shape shape = joined(kernel_.lines, outputs);
      decompose(lines, words, shape, 0, shape.rank(), "e", "o", false);
      std::string address = "LONG(0)";
      for (int d = 0; d < shape.rank(); ++d) {
        address += fmt::format(" + {} * LONG(o{})", words.int64(kernel_.out_strides[d]), d);
      }
      lines.add("LONG out_place = {};", address);
      const auto put = [&](const std::string& at, const std::string& value) {
        const std::string scaled = math.multiply(value, scale);
        lines.add("{}(out_at, {}, {});", store_of(kernel_.input.dtype), at,
                  encoded(kernel_.input.dtype, fmt::format("canonical({})", scaled),
                          wide_ ? ComputeType::f64 : ComputeType::f32));
      };
      put("out_place", x.re);
      if (plan_.writes_pairs()) put(fmt::format("out_place + {}", words.int64(kernel_.out_strides.back())), x.im);
    });
  }
  /// Number `at` of what the stages left.
  Complex transformed(Words& words, Arithmetics& math, const std::string& at) const {
    Complex x = math.pair("place", fmt::format("base + {}", at));
    if (plan_.chirped) x = math.turn(x.swapped(), root(math, words, plan_.chirp, plan_.points, at));
    return plan_.is_inverse() ? x.swapped() : x;
  }
  Complex result(Words& words, Lines& lines, Arithmetics& math) const {
    if (!plan_.paired) return transformed(words, math, "k");
    if (plan_.kind == FourierKind::real_inverse) {
      lines.add("int pair = k / 2;");
      const Complex x = transformed(words, math, "pair");
      return {math.set(fmt::format("SELECT(pair * 2 == k, {}, {})", x.re, x.im)), x.im};
    }
    lines.add("int points = {};", words.int32(plan_.points));
    lines.add("int low = SELECT(k == points, 0, k);");
    lines.add("int high = SELECT(k == 0, 0, points - k);");
    const Complex a = transformed(words, math, "low");
    const Complex b = transformed(words, math, "high");
    const Complex turn = root(math, words, plan_.turns, plan_.points + 1, "k");
    const Complex even = {math.add(a.re, b.re), math.subtract(a.im, b.im)};
    const Complex odd = {math.add(a.im, b.im), math.subtract(b.re, a.re)};
    const std::string half = math.set(wide_ ? "double(0.5f)" : "0.5f");
    return {math.multiply(math.fma(math.minus(odd.im), turn.im, math.fma(odd.re, turn.re, even.re)), half),
            math.multiply(math.fma(odd.re, turn.im, math.fma(odd.im, turn.re, even.im)), half)};
  }

  const FourierKernel& kernel_;
  const RenderLimits& limits_;
  const FourierPlan plan_;
  const bool wide_;
  const std::int64_t lines_count_;
  std::int64_t place_bytes_ = 0;
  std::int64_t place_ = 0;  ///< of the two, where the numbers are
};

}  // namespace

Rendered render_kernel(const FourierKernel& kernel, const RenderLimits& limits) {
  if (kernel.lines.numel() == 0) return {};
  return FourierWriter(kernel, limits).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
