#include "emu/tasks.h"

#include <algorithm>
#include <cstring>

#include "emu/elements.h"
#include "stretto/error.h"

namespace stretto::emu {
namespace {

constexpr int64_t kMaxPieceElements = int64_t{1} << 24;

#define STRETTO_ONE(name, text, bytes, bits) +1
constexpr size_t kNumDTypes = 0 STRETTO_DTYPES(STRETTO_ONE);
#undef STRETTO_ONE

// Rows [begin, end) of a region.
Region some_rows(Region region, int64_t begin, int64_t end) {
  region.row1 = static_cast<int32_t>(region.row0 + end);
  region.row0 = static_cast<int32_t>(region.row0 + begin);
  return region;
}

std::byte* row_of(const Payload& payload, int64_t row, DType dtype) {
  return payload.bytes.get() + row * payload.stride * num_bytes(dtype);
}

const std::byte* row_of(const MatrixView& view, int64_t row) {
  return static_cast<const std::byte*>(view.data) + row * view.stride * num_bytes(view.dtype);
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

int64_t Tasks::rows(const Where& where) const {
  const std::span<const Region> reads = plan_.reads(instr(where));
  if (instr(where).op != Opcode::gemm) return reads[0].rows();
  int64_t rows = 0;
  for (const Region& a : reads.first(reads.size() - 1)) rows += a.rows();
  return rows;
}

int64_t Tasks::max_rows(const Where& where) const {
  const Instr& task = instr(where);
  const int64_t cols =
      task.op == Opcode::gemm ? plan_.reads(task).back().rows() : plan_.reads(task)[0].cols();
  return std::max<int64_t>(1, kMaxPieceElements / std::max<int64_t>(1, cols));
}

MatrixView Tasks::read(const Where& where, const Region& region, std::vector<std::byte>& space) {
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
  for (const Region& region : plan_.reads(instr(where))) read(where, region, space_a_);
}

void Tasks::run(const Where& where, int64_t begin, int64_t end) {
  const Instr& task = instr(where);
  const std::span<const Region> writes = plan_.writes(task);
  // One payload for each element type that the result is written in; mostly one.
  Payload payloads[kNumDTypes];
  for (const Region& write : writes) {
    const DType dtype = memory_.buffer(write).dtype;
    Payload& payload = payloads[static_cast<size_t>(dtype)];
    if (payload.bytes) continue;
    payload = Payload::make(end - begin, write.cols(), num_bytes(dtype));
    compute(where, begin, end, dtype, payload);
  }
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

void Tasks::compute(const Where& where, int64_t begin, int64_t end, DType dtype,
                    const Payload& to) {
  switch (instr(where).op) {
    case Opcode::gemm:
      return gemm(where, begin, end, dtype, to);
    case Opcode::reduce:
      return reduce(where, begin, end, dtype, to);
    case Opcode::copy:
      return copy(where, begin, end, dtype, to);
    default:
      STRETTO_ASSERT(false, "only tasks with a result are run");
  }
}

void Tasks::gemm(const Where& where, int64_t begin, int64_t end, DType dtype, const Payload& to) {
  const std::span<const Region> reads = plan_.reads(instr(where));
  const Region& b = reads.back();
  const MatrixView view_b = read(where, b, space_b_);
  int64_t row = 0;
  for (const Region& stacked : reads.first(reads.size() - 1)) {
    const int64_t first = std::max(begin, row), last = std::min(end, row + stacked.rows());
    if (first < last) {
      const Region a = some_rows(stacked, first - row, last - row);
      const MatrixView view_a = read(where, a, space_a_);
      tile_gemm_.run(a.rows(), b.rows(), b.cols(), view_a, view_b,
                     {row_of(to, first - begin, dtype), to.stride, dtype});
      flops_ += 2.0 * a.rows() * b.rows() * b.cols();
    }
    row += stacked.rows();
  }
}

void Tasks::reduce(const Where& where, int64_t begin, int64_t end, DType dtype, const Payload& to) {
  const std::span<const Region> reads = plan_.reads(instr(where));
  const auto cols = static_cast<size_t>(reads[0].cols());
  sums_.resize(static_cast<size_t>(end - begin) * cols);
  for (size_t i = 0; i < reads.size(); ++i) {
    const Region part = some_rows(reads[i], begin, end);
    const MatrixView view = read(where, part, space_a_);
    float* sums = sums_.data();
    for (int64_t row = 0; row < end - begin; ++row, sums += cols) {
      if (i == 0) {
        widen(view.dtype, row_of(view, row), sums, cols);
      } else {
        add_elements(view.dtype, row_of(view, row), sums, cols);
      }
    }
  }
  round_elements(dtype, sums_.data(), to.bytes.get(), sums_.size());
}

void Tasks::copy(const Where& where, int64_t begin, int64_t end, DType dtype, const Payload& to) {
  const Region part = some_rows(plan_.reads(instr(where))[0], begin, end);
  const MatrixView view = read(where, part, space_a_);
  const auto cols = static_cast<size_t>(part.cols());
  for (int64_t row = 0; row < part.rows(); ++row) {
    if (view.dtype == dtype) {
      std::memcpy(row_of(to, row, dtype), row_of(view, row),
                  cols * static_cast<size_t>(num_bytes(dtype)));
    } else {
      sums_.resize(cols);
      widen(view.dtype, row_of(view, row), sums_.data(), cols);
      round_elements(dtype, sums_.data(), row_of(to, row, dtype), cols);
    }
  }
}

}  // namespace stretto::emu
