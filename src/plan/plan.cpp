#include "stretto/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/placed.h"
#include "stretto/error.h"

namespace stretto {

#define STRETTO_CASE(name, text, ...) \
  case Enum::name:                    \
    return text;

std::string_view to_string(BufferRole value) {
  using Enum = BufferRole;
  switch (value) { STRETTO_BUFFER_ROLES(STRETTO_CASE) }
  STRETTO_ASSERT(false, "buffer role out of range");
}

std::string_view to_string(LaneKind value) {
  using Enum = LaneKind;
  switch (value) { STRETTO_LANE_KINDS(STRETTO_CASE) }
  STRETTO_ASSERT(false, "lane kind out of range");
}

std::string_view to_string(Opcode value) {
  using Enum = Opcode;
  switch (value) { STRETTO_OPCODES(STRETTO_CASE) }
  STRETTO_ASSERT(false, "opcode out of range");
}

std::string_view to_string(CollectiveKind value) {
  using Enum = CollectiveKind;
  switch (value) { STRETTO_COLLECTIVES(STRETTO_CASE) }
  STRETTO_ASSERT(false, "collective kind out of range");
}

#undef STRETTO_CASE

namespace {

int32_t share_of(int rank, int32_t block, int32_t all) {
  if (all <= 0) return block;
  const int64_t left = int64_t{all} - int64_t{rank} * block;
  return static_cast<int32_t>(std::clamp<int64_t>(left, 0, block));
}

}  // namespace

int32_t Buffer::rows_on(int rank) const { return share_of(rank, rows, sharded_rows); }
int32_t Buffer::cols_on(int rank) const { return share_of(rank, cols, sharded_cols); }

std::optional<uint16_t> Plan::find_buffer(std::string_view name) const {
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].name == name) return static_cast<uint16_t>(i);
  }
  return std::nullopt;
}

bool Plan::has_tables() const {
  return std::any_of(buffers.begin(), buffers.end(),
                     [](const Buffer& buffer) { return is_index(buffer.dtype); });
}

size_t Plan::num_instrs() const {
  size_t count = 0;
  for (const Lane& lane : lanes) count += lane.instrs.size();
  return count;
}

uint32_t PlanLines::of(const InstrRef& where) const {
  const Of& lane = lanes[where.lane];
  return where.pos < lane.instrs.size() ? lane.instrs[where.pos] : lane.head;
}

std::vector<Placed> placed_writes(const Plan& plan, const Instr& instr) {
  std::vector<Placed> placed;
  placed.reserve(instr.num_writes);
  for_each_placed_write(plan, instr, [&](const Region& to, int32_t row) {
    placed.push_back({to, row});
  });
  return placed;
}

std::string describe(const Lane& lane) {
  return fmt::format("rank {} {} {}", lane.rank, to_string(lane.kind), lane.index);
}

std::string describe(const Plan& plan, const SignalRef& signal) {
  if (signal.array >= plan.signals.size()) return fmt::format("signal array {}", signal.array);
  return fmt::format("{}.{}", plan.signals[signal.array].name, signal.index);
}

std::string describe(const Plan& plan, const Region& region) {
  const std::string name = region.buffer < plan.buffers.size()
                               ? plan.buffers[region.buffer].name
                               : fmt::format("buffer {}", region.buffer);
  return fmt::format("{}@{}[{}:{},{}:{}]", name, region.rank, region.row0, region.row1, region.col0,
                     region.col1);
}

}  // namespace stretto
