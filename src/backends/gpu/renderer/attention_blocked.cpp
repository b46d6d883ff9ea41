// Attention in blocked numerics without scores in memory: a launch for the digits of each operand, and one for the
// result or for each of the three gradients. How a warp computes 16 rows is the dialect's
// (KernelText::attention_tiles); here stand where things lie.
#include <algorithm>

#include "backends/gpu/renderer/fast_parts.h"
#include "backends/gpu/renderer/kinds.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kAttentionBlock = order::kSharedBlock;
constexpr int kAttentionThreads = 128;  ///< of four warps: 64 rows of a result
constexpr int kAttentionRows = 64;
constexpr int kAttentionDigitThreads = 256;
constexpr int kAttentionStep = 32;  ///< of a width: tensor cores' k
constexpr std::int64_t kSeesAll = std::int64_t{1} << 30;

/// An operand's digits and scales in scratch memory, in bytes: of rows (or -1), of columns (or -1), and its flags.
struct AttentionForm {
  std::int64_t rows = -1, row_scales = 0;
  std::int64_t columns = -1, column_scales = 0;
  std::int64_t flags = 0;
};

class BlockedAttention {
 public:
  BlockedAttention(const AttentionKernel& kernel, const RenderLimits& limits)
      : kernel_(kernel), sizes_(kernel.sizes), limits_(limits), parts_(limits) {}
  Rendered render();

 private:
  int steps() const { return static_cast<int>(sizes_.width / kAttentionStep); }
  int chunks() const { return static_cast<int>(over(sizes_.keys, order::kChunk)); }
  std::int64_t query_heads() const { return sizes_.batches * sizes_.heads; }
  std::int64_t key_heads() const { return sizes_.batches * sizes_.key_heads; }
  /// The end of the keys that some query sees, in blocks of exact contractions.
  std::int64_t key_end() const {
    if (!kernel_.causal) return sizes_.keys;
    return std::min(over(std::min(sizes_.rows + kernel_.behind, sizes_.keys), order::kBlock) * order::kBlock,
                    sizes_.keys);
  }
  /// `shares`: where those go, or -1.
  AttentionForm digits(const Input& input, bool rows, bool columns, std::int64_t shares = -1);
  std::string functions() const;
  /// Declares `z` and the forms named.
  void declare(Words& words, Lines& lines, const std::vector<std::pair<const char*, const AttentionForm*>>& forms);
  void append(Words& words, Lines& lines, std::int64_t groups, int per_unit);

  const AttentionKernel& kernel_;
  const AttentionSizes& sizes_;
  const RenderLimits& limits_;
  FastParts parts_;
  std::vector<Launch> launches_;
};

// Macros of the text.
std::string BlockedAttention::functions() const {
  const DType dtype = kernel_.query.dtype;
  const bool canonical = kernel_.query.canonical && kernel_.key.canonical && kernel_.value.canonical &&
                         (!kernel_.gradients || kernel_.upstream.canonical);
  return fmt::format(
      "#define ATTENTION_VALUE(word) {}\n#define ATTENTION_PAIR(floats, j) JOINED_{}(floats, j)\n"
      "#define ATTENTION_CHUNKS {}\n",
      decoded(dtype, "word", canonical), dtype == DType::bf16 ? "BF16" : "F16", chunks());
}

// Pairs of elements are read at once: others are copied first.
AttentionForm BlockedAttention::digits(const Input& input, bool rows, bool columns, std::int64_t shares) {
  const View& view = input.view;
  bool lies = view.bounds.empty() && view.strides[3] == 1 && view.offset % 2 == 0;
  for (int d = 0; d < 3; ++d) lies = lies && view.strides[d] % 2 == 0;
  Shape strides = view.strides;
  std::int64_t copy = -1;
  if (!lies) {
    strides = View::contiguous(view.shape).strides;
    copy = parts_.reserve(view.shape.numel(), input.dtype);
    parts_.append_copy(input, view, strides, copy / 2, input.dtype);
  }
  const std::int64_t heads = view.shape[0] * view.shape[1];
  const std::int64_t blocks = heads * over(view.shape[2], kAttentionBlock);
  AttentionForm form;
  form.flags = parts_.reserve(blocks, DType::f32);
  const std::int64_t digit_words = blocks * kAttentionBlock * sizes_.width / 2;
  if (rows) {
    form.rows = parts_.reserve(digit_words, DType::f32);
    form.row_scales = parts_.reserve(blocks * kAttentionBlock, DType::f32);
  }
  if (columns) {
    form.columns = parts_.reserve(digit_words, DType::f32);
    form.column_scales = parts_.reserve(blocks * sizes_.width, DType::f32);
  }
  Words words;
  Lines lines;
  const auto place = [&](bool exists, std::int64_t at) {
    return exists ? words.memory(Patch::Kind::scratch, 0, at) : std::string("MEMORY(0)");
  };
  const std::string from = copy < 0 ? words.memory(Patch::Kind::address, input.slot, 2 * view.offset)
                                    : words.memory(Patch::Kind::scratch, 0, copy);
  lines.add("attention_digits<{}>((UINT*)values, ups, (UINT*)most, {}, {}, {}, {}, {}, {}, {},", steps(), from,
            words.int64(strides[0]), words.int64(strides[1]), words.int64(strides[2]), words.int32(heads),
            words.int32(view.shape[1]), words.int32(view.shape[2]));
  lines.add("    {}, {}, {}, {}, {},", place(rows, form.rows), place(rows, form.row_scales),
            place(columns, form.columns), place(columns, form.column_scales), place(true, form.flags));
  lines.add("    {}, {});", shares < 0 ? std::string("MEMORY(0)") : words.memory(Patch::Kind::address, kernel_.made),
            place(shares >= 0, shares));
  Launch launch;
  launch.text.functions = functions();
  launch.text.body = lines.take();
  launch.text.threads = kAttentionDigitThreads;
  launch.text.attention_tiles = true;
  launch.text.shared = {{ComputeType::i32, "values", kAttentionBlock * (static_cast<int>(sizes_.width) / 2 + 1)},
                        {ComputeType::f32, "ups", kAttentionBlock},
                        {ComputeType::i32, "most", kAttentionBlock}};
  launch.groups = limits_.groups_for(blocks);
  words.move_to(launch);
  launches_.push_back(std::move(launch));
  return form;
}

void BlockedAttention::declare(Words& words, Lines& lines,
                               const std::vector<std::pair<const char*, const AttentionForm*>>& forms) {
  lines.add("AttentionSizes z;");
  lines.add("z.heads = {};", words.int32(sizes_.heads));
  lines.add("z.key_heads = {};", words.int32(sizes_.key_heads));
  lines.add("z.rows = {};", words.int32(sizes_.rows));
  lines.add("z.keys = {};", words.int32(sizes_.keys));
  lines.add("z.key_end = {};", words.int32(key_end()));
  lines.add("z.behind = {};", words.int32(kernel_.causal ? kernel_.behind : kSeesAll));
  lines.add("z.scale = FROM_BITS(UINT({}));", words.scalar(kernel_.scale));
  for (const auto& [name, form] : forms) {
    const auto set = [&, of = name](const char* member, const char* type, bool exists, std::int64_t at) {
      lines.add("{}.{} = (const {}*)({});", of, member, type,
                exists ? words.memory(Patch::Kind::scratch, 0, at) : std::string("MEMORY(0)"));
    };
    lines.add("AttentionForm {};", name);
    set("rows", "uint4", form->rows >= 0, form->rows);
    set("row_scales", "float", form->rows >= 0, form->row_scales);
    set("columns", "uint4", form->columns >= 0, form->columns);
    set("column_scales", "float", form->columns >= 0, form->column_scales);
    set("flags", "UINT", true, form->flags);
  }
}

void BlockedAttention::append(Words& words, Lines& lines, std::int64_t groups, int per_unit) {
  Launch launch;
  launch.text.functions = functions();
  launch.text.body = lines.take();
  launch.text.threads = kAttentionThreads;
  launch.text.groups_per_unit = per_unit;
  launch.text.attention_tiles = true;
  launch.groups = limits_.groups_for(groups);
  words.move_to(launch);
  launches_.push_back(std::move(launch));
}

Rendered BlockedAttention::render() {
  LOCKSTEP_ASSERT(sizes_.width % kAttentionStep == 0 && sizes_.width <= kAttentionBlock);
  const bool gradients = kernel_.gradients;
  const AttentionForm query = digits(kernel_.query, true, gradients);
  const AttentionForm key = digits(kernel_.key, true, gradients);
  const AttentionForm value = digits(kernel_.value, gradients, !gradients);
  const std::int64_t row_items = query_heads() * over(sizes_.rows, kAttentionRows);
  if (!gradients) {
    Words words;
    Lines lines;
    declare(words, lines, {{"query", &query}, {"key", &key}, {"value", &value}});
    const std::string made = words.memory(Patch::Kind::address, kernel_.out);
    lines.add("attention_forward<{}>(z, query, key, value, {}, {}, {});", steps(), words.int32(query_heads()), made,
              words.memory(Patch::Kind::address, kernel_.out, 2 * sizes_.queries()));
    append(words, lines, row_items, 2);
  } else {
    const std::int64_t shares = parts_.reserve(query_heads() * sizes_.rows, DType::f32);
    const AttentionForm upstream = digits(kernel_.upstream, true, true, shares);
    const int more = steps() <= 2 ? 3 : 2;  // workgroups whose registers fit, as measured on an H100
    const auto open = [&](Words& words, Lines& lines) {
      declare(words, lines, {{"query", &query}, {"key", &key}, {"value", &value}, {"upstream", &upstream}});
      lines.add("MEMORY rows_at = {};", words.memory(Patch::Kind::address, kernel_.made, 2 * sizes_.queries()));
      lines.add("MEMORY shares = {};", words.memory(Patch::Kind::scratch, 0, shares));
    };
    Words words;
    Lines lines;
    open(words, lines);
    lines.add("attention_query_gradients<{}>(z, query, key, value, upstream, {}, rows_at, shares, {});", steps(),
              words.int32(query_heads()), words.memory(Patch::Kind::address, kernel_.out));
    append(words, lines, row_items, more);
    for (const bool of_keys : {true, false}) {
      Words own_words;
      Lines own_lines;
      open(own_words, own_lines);
      const std::int64_t first = sizes_.queries() + (of_keys ? 0 : sizes_.each_keys());
      own_lines.add("attention_key_gradients<{}, {}>(z, query, key, value, upstream, {}, rows_at, shares, {});",
                    steps(), of_keys ? "true" : "false", own_words.int32(key_heads()),
                    own_words.memory(Patch::Kind::address, kernel_.out, 2 * first));
      append(own_words, own_lines, key_heads() * over(sizes_.keys, kAttentionRows), of_keys ? 2 : more);
    }
  }
  Rendered rendered = parts_.take();
  for (Launch& launch : launches_) rendered.launches.push_back(std::move(launch));
  return rendered;
}

}  // namespace

Rendered render_blocked_attention(const AttentionKernel& kernel, const RenderLimits& limits) {
  return BlockedAttention(kernel, limits).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
