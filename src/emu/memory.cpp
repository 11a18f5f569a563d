#include "emu/memory.h"

#include <algorithm>
#include <cstring>

#include "tasks/elements.h"

namespace stretto::emu {
namespace {

// Regions wider than this can be delivered in pieces by columns even where no region of the plan
// ends.
constexpr int32_t kWidestInterval = 128;

double stored_rows(const Plan& plan, const Buffer& buffer) {
  double rows = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank) rows += buffer.rows_on(rank);
  return rows * buffer.copies;
}

}  // namespace

std::vector<Memory::Layout> Memory::layouts(const Plan& plan) {
  std::vector<Layout> layouts(plan.buffers.size());
  for (const Region& region : plan.operands) {
    std::vector<int32_t>& cuts = layouts[region.buffer].cuts;
    const size_t size = cuts.size();
    // Neighbouring operands mostly share their columns.
    if (size >= 2 && cuts[size - 2] == region.col0 && cuts[size - 1] == region.col1) continue;
    cuts.push_back(region.col0);
    cuts.push_back(region.col1);
  }
  for (size_t i = 0; i < layouts.size(); ++i) {
    Layout& layout = layouts[i];
    const int32_t cols = plan.buffers[i].cols;
    const bool stored = stored_rows(plan, plan.buffers[i]) > 0;
    layout.element_bytes = num_bytes(plan.buffers[i].dtype);
    layout.cuts.push_back(0);
    for (int64_t col = 0; stored && col < cols; col += kWidestInterval) {
      layout.cuts.push_back(static_cast<int32_t>(col));
    }
    layout.cuts.push_back(cols);
    std::erase_if(layout.cuts, [&](int32_t col) { return col < 0 || col > cols; });
    std::sort(layout.cuts.begin(), layout.cuts.end());
    layout.cuts.erase(std::unique(layout.cuts.begin(), layout.cuts.end()), layout.cuts.end());
  }
  return layouts;
}

double Memory::data_bytes(const Plan& plan) {
  double total = 0;
  for (const Buffer& buffer : plan.buffers) {
    total += stored_rows(plan, buffer) * buffer.cols * static_cast<double>(num_bytes(buffer.dtype));
  }
  return total;
}

double Memory::record_bytes(const Plan& plan) {
  double total = 0;
  const std::vector<Layout> all = layouts(plan);
  for (size_t i = 0; i < all.size(); ++i) {
    total += stored_rows(plan, plan.buffers[i]) * all[i].intervals() * sizeof(uint32_t);
  }
  return total;
}

Memory::Memory(const Plan& plan) : plan_(plan), layouts_(layouts(plan)) {
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    first_copy_.push_back(copies_.size());
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      const auto rows = static_cast<size_t>(buffer.rows_on(rank));
      const size_t row_bytes =
          static_cast<size_t>(buffer.cols) * static_cast<size_t>(layouts_[i].element_bytes);
      for (int copy = 0; copy < buffer.copies; ++copy) {
        // Left as it comes: what nothing has written reads as poison.
        copies_.push_back(
            {std::unique_ptr<std::byte[]>(new std::byte[rows * row_bytes]),
             std::vector<uint32_t>(rows * static_cast<size_t>(layouts_[i].intervals()))});
      }
    }
  }
}

int32_t Memory::Layout::interval(int32_t col) const {
  return static_cast<int32_t>(std::lower_bound(cuts.begin(), cuts.end(), col) - cuts.begin());
}

bool Memory::contains(const Region& region) const {
  const Buffer& buffer = plan_.buffers[region.buffer];
  return region.rank < plan_.ranks() && region.row0 >= 0 && region.row0 <= region.row1 &&
         region.row1 <= buffer.rows_on(region.rank) && region.col0 >= 0 &&
         region.col0 <= region.col1 && region.col1 <= buffer.cols_on(region.rank);
}

Region Memory::whole(uint16_t buffer, int rank) const {
  const Buffer& of = plan_.buffers[buffer];
  return {.row0 = 0,
          .row1 = of.rows_on(rank),
          .col0 = 0,
          .col1 = of.cols_on(rank),
          .buffer = buffer,
          .rank = static_cast<uint16_t>(rank)};
}

size_t Memory::copy_index(const Region& region, int run) const {
  const size_t copies = plan_.buffers[region.buffer].copies;
  return first_copy_[region.buffer] + region.rank * copies + static_cast<size_t>(run) % copies;
}

std::byte* Memory::address(const Region& region, int run) const {
  const int64_t first = int64_t{region.row0} * plan_.buffers[region.buffer].cols + region.col0;
  return copies_[copy_index(region, run)].data.get() +
         first * layouts_[region.buffer].element_bytes;
}

tasks::MatrixView Memory::view(const Region& region, int run) const {
  const Buffer& buffer = plan_.buffers[region.buffer];
  return {address(region, run), buffer.cols, buffer.dtype};
}

Unfit Memory::examine(const Region& region, int run) const {
  Unfit unfit;
  if (region.empty()) return unfit;
  const Layout& layout = layouts_[region.buffer];
  const int32_t begin = layout.interval(region.col0), end = layout.interval(region.col1);
  const uint32_t right = static_cast<uint32_t>(run) + 1;
  const uint32_t* tags = copies_[copy_index(region, run)].written.data();
  for (int32_t row = region.row0; row < region.row1; ++row) {
    const uint32_t* line = tags + int64_t{row} * layout.intervals();
    for (int32_t i = begin; i < end; ++i) {
      if (line[i] == right) continue;
      if (unfit.count() == 0) {
        unfit.row = row;
        unfit.col = layout.cuts[i];
      }
      const int64_t elements = layout.cuts[i + 1] - layout.cuts[i];
      (line[i] == 0 ? unfit.never : line[i] < right ? unfit.stale : unfit.newer) += elements;
    }
  }
  return unfit;
}

void Memory::read(const Region& region, int run, void* to) const {
  if (region.empty()) return;
  const Buffer& buffer = plan_.buffers[region.buffer];
  const Layout& layout = layouts_[region.buffer];
  const size_t row_bytes = static_cast<size_t>(region.cols() * layout.element_bytes);
  const std::byte* source = address(region, run);
  auto* target = static_cast<std::byte*>(to);
  for (int32_t row = 0; row < region.rows(); ++row) {
    std::memcpy(target + row * row_bytes, source, row_bytes);
    source += buffer.cols * layout.element_bytes;
  }
  if (examine(region, run).count() == 0) return;
  const uint32_t* tags = copies_[copy_index(region, run)].written.data();
  const int32_t begin = layout.interval(region.col0), end = layout.interval(region.col1);
  for (int32_t row = region.row0; row < region.row1; ++row) {
    for (int32_t i = begin; i < end; ++i) {
      if (tags[int64_t{row} * layout.intervals() + i] == static_cast<uint32_t>(run) + 1) continue;
      const int64_t col = layout.cuts[i] - region.col0;
      tasks::fill_poison(buffer.dtype,
                         target + (row - region.row0) * row_bytes + col * layout.element_bytes,
                         static_cast<size_t>(layout.cuts[i + 1] - layout.cuts[i]));
    }
  }
}

int64_t Memory::write(const Region& region, int run, const void* from, int64_t stride) {
  if (region.empty()) return 0;
  const Layout& layout = layouts_[region.buffer];
  const size_t row_bytes = static_cast<size_t>(region.cols() * layout.element_bytes);
  const int32_t begin = layout.interval(region.col0), end = layout.interval(region.col1);
  const uint32_t tag = static_cast<uint32_t>(run) + 1;
  uint32_t* tags = copies_[copy_index(region, run)].written.data();
  std::byte* target = address(region, run);
  const auto* source = static_cast<const std::byte*>(from);
  int64_t overtaken = 0;
  for (int32_t row = region.row0; row < region.row1; ++row) {
    std::memcpy(target, source, row_bytes);
    target += plan_.buffers[region.buffer].cols * layout.element_bytes;
    source += stride * layout.element_bytes;
    uint32_t* line = tags + int64_t{row} * layout.intervals();
    for (int32_t i = begin; i < end; ++i) {
      if (line[i] > tag) overtaken += layout.cuts[i + 1] - layout.cuts[i];
      line[i] = tag;
    }
  }
  return overtaken;
}

Memory::Pieces Memory::cut(const Region& region, Random& random) const {
  Pieces pieces{region, region};
  const Layout& layout = layouts_[region.buffer];
  const int32_t begin = layout.interval(region.col0), end = layout.interval(region.col1);
  if (end - begin >= 2 && (region.rows() < 2 || random.chance(50))) {
    const int32_t at = begin + 1 + static_cast<int32_t>(random.below(end - begin - 1));
    pieces.first.col1 = pieces.second.col0 = layout.cuts[at];
  } else if (region.rows() >= 2) {
    const int32_t at = region.row0 + 1 + static_cast<int32_t>(random.below(region.rows() - 1));
    pieces.first.row1 = pieces.second.row0 = at;
  } else {
    pieces.second.row0 = pieces.second.row1;
    return pieces;
  }
  if (random.chance(50)) std::swap(pieces.first, pieces.second);
  return pieces;
}

}  // namespace stretto::emu
