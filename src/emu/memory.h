// The buffers of all ranks. Beside every element stands in which run it was last written (kept by
// row and by intervals between the columns where any region of the plan begins or ends), so a read
// knows for certain whether it gets what this run wrote. Where it does not, it gets poison: NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "emu/random.h"
#include "stretto/plan.h"
#include "tasks/tile_gemm.h"

namespace stretto::emu {

// Elements of a region that a read in some run must not use.
struct Unfit {
  int64_t never = 0;         // written in no run
  int64_t stale = 0;         // last written in an earlier run
  int64_t newer = 0;         // already overwritten in a later run
  int32_t row = 0, col = 0;  // the first of them
  int64_t count() const { return never + stale + newer; }
};

class Memory {
 public:
  explicit Memory(const Plan& plan);
  // What the elements take, and what the record of their writing takes. The second may be asked
  // for only when the first is affordable.
  static double data_bytes(const Plan& plan);
  static double record_bytes(const Plan& plan);

  bool contains(const Region& region) const;
  const Buffer& buffer(const Region& region) const { return plan_.buffers[region.buffer]; }
  Region whole(uint16_t buffer, int rank) const;

  // The functions below want a region that the memory contains, and mean the copy that `run` uses.
  Unfit examine(const Region& region, int run) const;
  tasks::MatrixView view(const Region& region, int run) const;
  // Row-major without gaps; poison for elements that are unfit.
  void read(const Region& region, int run, void* to) const;
  // `stride` elements apart. Returns how many elements of later runs were overwritten.
  int64_t write(const Region& region, int run, const void* from, int64_t stride);

  // A part of the region whose validity can be told apart from the rest's, and the rest, which is
  // empty when the region cannot be cut.
  struct Pieces {
    Region first, second;
  };
  Pieces cut(const Region& region, Random& random) const;

 private:
  struct Layout {  // of a buffer
    int64_t element_bytes = 0;
    std::vector<int32_t> cuts;            // columns, ascending, from 0 to cols
    int32_t interval(int32_t col) const;  // of the cut at `col`
    int32_t intervals() const { return static_cast<int32_t>(cuts.size()) - 1; }
  };
  struct Copy {
    std::unique_ptr<std::byte[]> data;
    std::vector<uint32_t> written;  // by row and interval: run + 1, or 0 for never
  };
  static std::vector<Layout> layouts(const Plan& plan);
  size_t copy_index(const Region& region, int run) const;
  std::byte* address(const Region& region, int run) const;

  const Plan& plan_;
  std::vector<Layout> layouts_;
  std::vector<size_t> first_copy_;  // by buffer: index in copies_ of rank 0, copy 0
  std::vector<Copy> copies_;
};

}  // namespace stretto::emu
