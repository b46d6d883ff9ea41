// The kernel of contraction_tiles.cpp: operands reach shared memory in contraction_tiles_load.cpp, results leave it in
// contraction_tiles_store.cpp.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/gpu/renderer/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

enum class Loading { own_vectors, k_vectors, along_own, along_k };

/// An operand and how its tile is filled.
struct Loader {
  Side side;
  Loading loading;
  int width;   ///< of the tile along the operand's own dimensions
  int stride;  ///< of the tile in shared memory
  int count;   ///< elements per thread and step
  bool table;  ///< what k contributes is looked up
  int places;  ///< of the operand's own dimensions that a thread reads at

  bool vectors() const { return loading == Loading::own_vectors || loading == Loading::k_vectors; }
};

class TileKernel {
 public:
  TileKernel(const ContractionKernel& kernel, const Geometry& geometry, const TileForm& form,
             const RenderLimits& limits, std::optional<SeenKeys> seen)
      : kernel_(kernel),
        limits_(limits),
        geometry_(geometry),
        form_(form),
        seen_(seen),
        writer_(kernel.epilogue, geometry.epilogue, words_),
        index_(geometry.wide ? "LONG" : "int"),
        type_(type_name(kernel.type)),
        single_(kernel.type == ComputeType::f32 || kernel.type == ComputeType::i32),
        guarded_(is_guarded(kernel, limits)),
        a_(loader("a", kernel.a, geometry.a, true)),
        b_(loader("b", kernel.b_operand, geometry.b, false)) {}

  Launch render();

 private:
  static constexpr int kStageRows = 32;

  // Declares what a workgroup knows of its tile, in the loop over tiles (and parts of k) that it opens.
  void open_tiles(std::int64_t tiles_m, std::int64_t tiles_n);
  // Which tile it is; and its end of k.
  void place_tile(std::int64_t tiles_m, std::int64_t tiles_n);
  // The loop over steps of k, and around it that over canonical blocks, where there are several.
  void walk_k(bool blocks);
  Launch launch(std::int64_t tiles);

  bool is_split() const { return form_.split > 1; }
  bool ends_by_tile() const { return seen_ && seen_->along_k; }
  /// Whether there are several blocks to add up here.
  bool has_totals() const { return !is_split() && geometry_.length > kBlock; }
  std::int64_t per_split() const {
    const std::int64_t blocks = (geometry_.length + kBlock - 1) / kBlock;
    return (blocks + form_.split - 1) / form_.split * kBlock;
  }
  int each_m() const { return 4 * form_.subtiles_m; }
  int each_n() const { return 4 * form_.subtiles_n; }
  // Four words of padding: what a transposed store writes at once lies in different banks.
  int padding() const { return single_ ? 4 : 0; }
  int stage_stride() const { return form_.columns() + padding(); }

  Loader loader(const char* name, const Input& input, const View& view, bool left) const;

  void declare_sums(const char* array);

  // The number of this thread's element (or vector) j in the tile, along the operand's own dimensions and along k.
  std::string own_of(const Loader& loader) const;
  std::string k_of(const Loader& loader) const;
  // The number of what this thread reads as its element (or vector) j.
  std::string vector_of(const Loader& loader) const {
    return loader.places == 1 ? "thread_id" : fmt::format("(thread_id + j * {})", form_.threads());
  }

  // Where the rows (columns) of this thread's elements begin. Beyond the end the last one is read again.
  void prepare(const Loader& loader, const char* own);

  // What `count` positions from `from` on contribute to addresses and bounds.
  void fill_tables(const std::string& from, const std::string& buffer, int count);

  // Reads this thread's elements of the step that begins at load_k.
  void load(const Loader& loader);

  /// Where the elements of a canonical block are noted that are so small that multiplications must keep subnormals: the
  /// one in which k lies, or one further on. Two blocks take turns.
  std::string small_of(const std::string& k, int blocks_on) const;
  static constexpr int kSmallFlags = 6;
  void note_small(const Loader& loader);

  // Writes what was read to the tile behind.
  void put(const Loader& loader);

  // Four neighbours in shared memory. The address is a multiple of four.
  void read4(const std::string& array, const std::string& at, const std::string& to, const std::string& i) {
    if (kernel_.type == ComputeType::f32) return lines_.add("READ4({}, {}, {}, {})", array, at, to, i);
    lines_.add("for (int q = 0; q < 4; q++) {}[{} + q] = {}[{} + q];", to, i, array, at);
  }
  void write4(const std::string& array, const std::string& at, const std::string& from, const std::string& i) {
    if (kernel_.type == ComputeType::f32) return lines_.add("WRITE4({}, {}, {}, {})", array, at, from, i);
    lines_.add("for (int q = 0; q < 4; q++) {}[{} + q] = {}[{} + q];", array, at, from, i);
  }

  void multiply();
  void multiply(const char* fma);

  // Loops over this thread's rows x and subtiles of columns s; `row` and `column` count within the tile.
  void open_outputs();
  void close_outputs() {
    lines_.close();
    lines_.close();
  }

  // At the end of a canonical block: the first partial is kept, later ones are added.
  void end_block();

  void store4(const std::string& at);

  // What the epilogue computes from the row alone: once for all columns, kept in shared memory where they need it.
  void fill_fixed();

  // Results pass through shared memory, so that neighbouring threads write neighbours, and so that the epilogue's text
  // stands once.
  void write_outputs();

  const ContractionKernel& kernel_;
  const RenderLimits& limits_;
  const Geometry& geometry_;
  TileForm form_;
  std::optional<SeenKeys> seen_;
  Words words_;
  Lines lines_;
  ProgramWriter writer_;
  const char* index_;
  const char* type_;
  bool single_;   ///< words of 4 bytes
  bool guarded_;  ///< small elements make the multiplications keep subnormals: see is_guarded
  Loader a_, b_;
  std::set<int> fixed_;         ///< instructions of the epilogue that fill_fixed computes
  std::set<int> shared_fixed_;  ///< and those that others read
  std::vector<SharedArray> shared_;
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
