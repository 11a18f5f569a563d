#include "emu/tasks.h"

#include <algorithm>
#include <cstring>

#include "stretto/error.h"

namespace stretto::emu {
namespace {

constexpr int64_t kMaxPieceElements = int64_t{1} << 24;

#define STRETTO_ONE(name, text, bytes, bits) +1
constexpr size_t kNumDTypes = 0 STRETTO_ALL_DTYPES(STRETTO_ONE);
#undef STRETTO_ONE

// Rows [begin, end) of a region.
Region some_rows(Region region, int64_t begin, int64_t end) {
  region.row1 = static_cast<int32_t>(region.row0 + end);
  region.row0 = static_cast<int32_t>(region.row0 + begin);
  return region;
}

}  // namespace

Tasks::Tasks(const Plan& plan, Memory& memory, InFlight& in_flight, Faults& faults)
    : plan_(plan), memory_(memory), in_flight_(in_flight), faults_(faults) {}

const Instr& Tasks::instr(const Where& where) const {
  return plan_.lanes[where.lane].instrs[where.pos];
}

bool Tasks::sound(const Where& where) {
  const Instr& task = instr(where);
  const int rank = plan_.lanes[where.lane].rank;
  bool sound = true;
  const auto examine = [&](const Region& region, bool is_read) {
    if (!memory_.contains(region)) {
      faults_.out_of_bounds(where, region);
      sound = false;
    } else if (region.rank != rank) {
      const BufferRole role = memory_.buffer(region).role;
      const bool in_reach =
          role == BufferRole::symmetric || (role == BufferRole::output && !is_read);
      if (!in_reach) {
        faults_.foreign(where, region);
        sound = false;
      }
    }
  };
  for (const Region& region : plan_.reads(task)) examine(region, true);
  for (const Region& region : plan_.writes(task)) examine(region, false);
  return sound;
}

const TaskKind& Tasks::kind(const Where& where) const { return *instr(where).kind(); }

int64_t Tasks::rows(const Where& where) const {
  return kind(where).rows(plan_.reads(instr(where)), plan_.writes(instr(where)));
}

int64_t Tasks::max_rows(const Where& where) const {
  const int64_t cols = kind(where).cols(plan_.reads(instr(where)), plan_.writes(instr(where)));
  return std::max<int64_t>(1, kMaxPieceElements / std::max<int64_t>(1, cols));
}

tasks::MatrixView Tasks::read(const Where& where, const Region& region,
                              std::vector<std::byte>& space) {
  in_flight_.deliver_overlapping(where.lane, region);
  const Unfit unfit = memory_.examine(region, where.run);
  if (unfit.count() == 0) return memory_.view(region, where.run);
  faults_.unfit_read(where, region, unfit);
  const DType dtype = memory_.buffer(region).dtype;
  space.resize(static_cast<size_t>(region.elements() * num_bytes(dtype)));
  memory_.read(region, where.run, space.data());
  return {space.data(), region.cols(), dtype};
}

void Tasks::check_reads(const Where& where) {
  if (spaces_.empty()) spaces_.emplace_back();
  for (const Region& region : plan_.reads(instr(where))) read(where, region, spaces_[0]);
}

void Tasks::run(const Where& where, int64_t begin, int64_t end) {
  const Instr& task = instr(where);
  const std::span<const Region> reads = plan_.reads(task), writes = plan_.writes(task);
  read_operands(where, begin, end);
  const int64_t cols = kind(where).cols(reads, writes);
  const int rank = plan_.lanes[where.lane].rank;
  int64_t bad_ids = 0;
  const auto flops = kind(where).cost.flops;
  if (flops != nullptr) flops_ += flops(reads, writes, end - begin);
  // One payload for each element type that the result is written in; mostly one.
  Payload payloads[kNumDTypes];
  for (const Region& write : writes) {
    const DType dtype = memory_.buffer(write).dtype;
    Payload& payload = payloads[static_cast<size_t>(dtype)];
    if (payload.bytes) continue;
    const bool is_first = &write == writes.data();
    payload = Payload::make(end - begin, cols, num_bytes(dtype));
    kind(where).compute({operands_,
                         end - begin,
                         cols,
                         {payload.bytes.get(), cols, dtype},
                         task.attribute(),
                         scratch_,
                         begin,
                         plan_.operands_of(task),
                         rank,
                         is_first ? &bad_ids : nullptr});
  }
  bad_ids_.add(where.run, rank, kind(where).makes_tables, bad_ids);
  const int64_t task_rows = rows(where);
  int64_t row = 0;
  for (const Region& write : writes) {
    const int64_t from = std::max(begin, row), to = std::min(end, row + write.rows());
    if (from < to) {
      in_flight_.write(where, some_rows(write, from - row, to - row),
                       payloads[static_cast<size_t>(memory_.buffer(write).dtype)], from - begin);
    }
    row += write.rows();
    if (row >= task_rows) row = 0;
  }
}

void Tasks::read_operands(const Where& where, int64_t begin, int64_t end) {
  const std::span<const Region> reads = plan_.reads(instr(where));
  const size_t by_rows = reads.size() - kind(where).num_others;
  operands_.assign(reads.size(), {});
  if (spaces_.size() < reads.size()) spaces_.resize(reads.size());
  const auto read_one = [&](size_t i, const Region& region) {
    operands_[i] = {read(where, region, spaces_[i]), region.rows(), region.cols()};
  };
  for (size_t i = by_rows; i < reads.size(); ++i) read_one(i, reads[i]);
  int64_t row = 0;  // of the result, the operand's first
  for (size_t i = 0; i < by_rows; ++i) {
    const int64_t first = std::max(begin, row), last = std::min(end, row + reads[i].rows());
    if (first < last) read_one(i, some_rows(reads[i], first - row, last - row));
    if (kind(where).stacks) row += reads[i].rows();
  }
}

}  // namespace stretto::emu
