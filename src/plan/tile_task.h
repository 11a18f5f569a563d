// A gemm and the tasks of its lane that go on with its tile in registers: one task of a GPU. This
// is the one place that says what a GPU can keep there.
//
// First come gemms of further ranges of K that follow one another, whose sums stay, and a reduce
// that adds them, and those that others have left in memory. Then a reduce that adds what other
// ranks have sent to the tile; or what follows a product: a row of bias, an activation, or, beside
// a second product of the same A, a swiglu. The second product is one gemm of all of K; where the
// first one has ranges of K, it stands behind their sum, and a GPU multiplies both range by range.
// Between gemms and reduces waits may stand, and notifies
// that may come behind the tile; between the others nothing does.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "plan/added_part.h"
#include "stretto/plan.h"

namespace stretto {

// Ranges of K that the tasks of a tile share, at most; where those in registers end, besides the
// last; and columns that are moved at once.
inline constexpr int kMostRanges = 16, kBlockOfK = 64, kColumnsAtOnce = 8;

// The reduces that add to the tile of a gemm: first one that adds the sums of the tile's other
// ranges of K, then one that adds other ranks' sums; there may be either or both. Each reads the
// tile as it is until then, which lies at equal distances from what is added. Until the last one it
// is never stored, so nothing else reads it.
//
// The rank may own some rows of a tile only: then the reduce reads that part of it, and the other
// parts are stored before, by a task of their own, which makes the notifies that stand between.
struct TileSum {
  uint32_t position = 0;   // of the last reduce; 0: there is none, or a mover has to do it
  uint32_t of_ranges = 0;  // position of the one that adds ranges of K; 0: there is none
  uint32_t first = 0;      // of this: the first of the gemms whose sums stay in registers
  uint32_t others = 0;     // ranges of K that it adds from memory
  // Those in registers begin somewhere in K and go on with its beginning behind its end, or the
  // first has rows of A in a matrix of its own.
  bool by_source = false;
  uint32_t of_ranks = 0;      // position of the one that adds ranks' sums. Of this:
  uint32_t own_at = 0;        // which of its sources is the tile
  int32_t step_rows = 0;      // of the buffer, from source to source
  bool has_residual = false;  // the last source is none of these, but of another buffer
  AddedPart part = {};        // the tile, or what of it is the rank's own

  explicit operator bool() const { return position != 0; }
  bool reads_memory() const { return others != 0 || of_ranks != 0; }
  bool stores_before() const { return of_ranks != 0 && !part.is_all; }
  TileSum of_ranges_alone() const { return {of_ranges, of_ranges, first, others, by_source}; }
  // What is added before anything is stored.
  TileSum before_stores() const { return stores_before() ? of_ranges_alone() : *this; }
  // Whose writes of the gemm's and the sums' are the whole tile's, the rank's part included.
  uint32_t writer(uint32_t gemm) const { return of_ranges != 0 ? of_ranges : gemm; }
};

// A tile that is worked on before it is stored. Each task takes what the one before has left in
// fp32 in the rank's own memory, which nothing else touches: so it never leaves the registers.
// Positions are those of the tile's lane.
struct FollowedTile {
  uint32_t begin = 0;                // the first gemm; of ranges of K, the one that ends the tile
  uint32_t made = 0;                 // the same, or the sum over its ranges
  uint32_t last = 0;                 // what follows last: its result is what is stored
  uint32_t product = 0;              // the gemm; of two, the one that goes through the activation
  uint32_t other = 0;                // swiglu: the other gemm
  uint32_t bias[2] = {0, 0};         // of either, the bias that is added; 0: none
  std::optional<Opcode> activation;  // gelu, silu or swiglu

  explicit operator bool() const { return last != 0; }
  bool has_bias() const { return bias[0] != 0 || bias[1] != 0; }
  bool has_two() const;  // the activation is of two products
  uint32_t last_gemm() const { return has_two() && other > product ? other : product; }
};

// What follows is asked of the row of the kind. Of other instructions it is nothing.
inline TileRole role_of(Opcode op) {
  const TaskKind* const kind = kind_of(op);
  return kind == nullptr ? TileRole::none : kind->in_tile.value;
}
// Whether the GEMM kernel multiplies it: a tile begins with one.
inline bool is_product(Opcode op) { return role_of(op) == TileRole::product; }
inline bool is_sum(Opcode op) { return role_of(op) == TileRole::sum; }
inline bool is_norm(Opcode op) { return role_of(op) == TileRole::norm; }
// Whether it reads tiles that stand side by side, and gives rows back.
inline bool reads_tiles(Opcode op) {
  const TaskKind* const kind = kind_of(op);
  return kind != nullptr && kind->kernels.by == KernelKind::tiles;
}
// Whether a product's tile may go through it before it is stored: a bias or an activation. Sums and
// norms follow in registers too, each in a way of its own.
inline bool follows_product(Opcode op) {
  const TileRole role = role_of(op);
  return role == TileRole::row || role == TileRole::activation || role == TileRole::gate;
}
// Whether its rows are of a partition's entries, and choose their matrices.
inline bool is_routed_product(Opcode op) {
  const TaskKind* const kind = kind_of(op);
  return kind != nullptr && kind->kernels.of_entries;
}
// Of these, whether rows of A are found by index.
inline bool gathers_rows(Opcode op) {
  const TaskKind* const kind = kind_of(op);
  return kind != nullptr && kind->kernels.gathers;
}
// What prepares tokens for tiles, or says what there is of them: GPUs do it ahead of these, in a
// kernel of its own.
inline bool is_ahead_of_tiles(Opcode op) {
  const TaskKind* const kind = kind_of(op);
  return kind != nullptr && kind->kernels.ahead_of_tiles;
}

inline bool FollowedTile::has_two() const {
  return activation && role_of(*activation) == TileRole::gate;
}
// Of a compute lane's instructions [begin, end) between two boundaries: one past what prepares
// tokens ahead of tiles, and the notifies behind it; `begin` where nothing does.
uint32_t end_of_head(const std::vector<Instr>& instrs, uint32_t begin, uint32_t end);

// Positions of a tile's lane: from its first gemm to its last task.
struct Tile {
  uint32_t begin = 0, last = 0;
  uint32_t gemm = 0;  // of ranges of K that stay in registers, the last one; else the first
  TileSum sum;
  FollowedTile followed;  // none with ranks' sums
};

// A tile as it grows.
class TileTask {
 public:
  // Begins with the gemm at `at` of the lane.
  TileTask(const Plan& plan, const Lane& lane, uint32_t at);

  // Goes on with the task at `at`, before which nothing but waits and notifies stand behind the
  // last one. Else says what would be right, "expected ..."; empty where it went on.
  std::string_view take(uint32_t at);
  // Whether no task is missing that takes what is in registers now.
  bool is_whole() const;

  const Tile& tile() const { return tile_; }

  // False where the task behind a gemm is surely none that goes on with it: most are not.
  static bool may_go_on(const Plan& plan, const Instr& gemm, const Instr& next);

  // Whether registers may hold, of what the plan has in the buffer, all that there is.
  static bool keeps(const Buffer& buffer) {
    return buffer.dtype == DType::fp32 && buffer.role == BufferRole::local;
  }
  // Where what the task of a rank leaves may stay in registers; null: nowhere.
  static const Region* kept_by(const Plan& plan, int rank, const Instr& instr);

 private:
  enum class Stage : uint8_t { multiplies, two_products, ranges_added, ranks_added, followed };
  struct Product {
    Region at;  // where the plan has it until it is worked on
    uint32_t gemm = 0, bias = 0;
  };

  std::string_view take(TileRole role, uint32_t at);
  std::string_view take_gemm(uint32_t at);
  std::string_view take_second(uint32_t at);
  bool is_beside_ranges(uint32_t at) const;
  std::string_view take_reduce(uint32_t at);
  std::string_view add_ranges(uint32_t at);
  std::string_view add_ranks(uint32_t at);
  std::string_view follow(uint32_t at);
  std::string_view follow_product(uint32_t at);
  const Region* kept(uint32_t at) const { return kept_by(plan_, lane_.rank, instr(at)); }
  bool tells(uint32_t from, uint32_t to) const;
  bool is_before_begin(uint32_t at) const;
  const Instr& instr(uint32_t at) const { return lane_.instrs[at]; }

  const Plan& plan_;
  const Lane& lane_;
  Stage stage_ = Stage::multiplies;
  Tile tile_;
  uint32_t num_ranges_ = 1;  // whose gemms follow one another
  bool by_source_ = false;   // and that in a way that sums tell
  Product products_[2];
  uint32_t num_products_ = 1;
};

// Whether the reduce adds ranges of K, one of which the gemm has left in scratch memory of the
// rank.
bool adds_ranges(const Plan& plan, int rank, const Instr& gemm, const Instr& reduce);

// What a lane's tasks are parts of: asked of each of its instructions, in order.
class InGemm {
 public:
  // Whether the GEMM kernel does it with a tile. Of a wait, notify or boundary: the task before it.
  bool pass(const Instr& instr) {
    if (instr.is_task()) now_ = is_product(instr.op) || (instr.fused && now_);
    return now_;
  }

 private:
  bool now_ = false;
};

}  // namespace stretto
