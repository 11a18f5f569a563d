#include "emu/output_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "op/error_bound.h"
#include "plan/tile_task.h"
#include "tasks/elements.h"

namespace stretto::emu {

namespace {

// A value that is not finite is met by its like alone, a NaN by any NaN. One that may be larger
// than the type's are, by an infinity too.
double distance(double got, double value, double bound, DType dtype) {
  if (std::isfinite(got) && std::isfinite(value)) return std::fabs(got - value);
  const double largest = got > 0 ? bound + value : bound - value;
  const bool overflows =
      std::isinf(got) && std::isfinite(value) && largest >= least_infinite(dtype);
  const bool are_alike = std::isnan(value) ? std::isnan(got) : got == value;
  return are_alike || overflows ? 0 : std::numeric_limits<double>::infinity();
}

}  // namespace

Roundings roundings_of(const Plan& plan) {
  Roundings found;
  const auto account = [&](const Region& partial, int roundings) {
    const DType dtype = plan.buffers[partial.buffer].dtype;
    if (unit_roundoff(dtype) > unit_roundoff(found.partials)) found.partials = dtype;
    found.roundings = std::max(found.roundings, roundings);
  };
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.kind() != nullptr && instr.kind()->adds_terms) {
        for (const Region& read : plan.reads(instr)) account(read, 1);
      } else if (instr.op == Opcode::collective && form_of(instr.collective).adds &&
                 form_of(instr.collective).goes_by_ids()) {
        account(plan.writes(instr)[0], 1);
      } else if (instr.op == Opcode::collective && form_of(instr.collective).adds) {
        // Once when it is stored, then at each of a ring's ranks - 1 hops.
        const int roundings = plan.low_latency_collectives ? 1 : plan.ranks();
        const uint16_t terms = instr.num_reads - form_of(instr.collective).own_reads;
        for (const Region& read : plan.reads(instr).first(terms)) account(read, roundings);
      } else if (plan.any_library() && follows_product(instr.op)) {
        // It reads the product as it is stored.
        const DType dtype = plan.buffers[plan.reads(instr)[0].buffer].dtype;
        if (unit_roundoff(dtype) > unit_roundoff(found.kept)) found.kept = dtype;
      }
    }
  }
  return found;
}

void unify_nans(DType dtype, std::vector<std::byte>& elements) {
  const auto bytes = static_cast<size_t>(num_bytes(dtype));
  std::byte nan[sizeof(float)];
  tasks::fill_poison(dtype, nan, 1);
  for (size_t at = 0; at < elements.size(); at += bytes) {
    float value = 0;
    tasks::widen(dtype, elements.data() + at, &value, 1);
    if (std::isnan(value)) std::memcpy(elements.data() + at, nan, bytes);
  }
}

uint64_t hash_bytes(const std::vector<std::byte>& bytes) {
  uint64_t hash = bytes.size();
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min(sizeof(word), bytes.size() - i));
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

uint64_t hash_all(const std::vector<uint64_t>& hashes) {
  uint64_t all = 0;
  for (const uint64_t hash : hashes) {
    all = (all ^ hash) * 0x9E3779B97F4A7C15u;
    all ^= all >> 32;
  }
  return all;
}

void OutputCheck::compare(int run, int rank, size_t index, const std::byte* output,
                          const ExpectedRows& expected) {
  const OperatorOutput& of = plan.op.outputs[index];
  const Slice slice = slice_of(plan.op, of.tensor, of.held, rank);
  const int64_t first = std::max(slice.row0, expected.row0);
  const int64_t last = std::min(slice.row1, expected.row1);
  const DType dtype = plan.op.tensor(of.tensor).dtype;
  int64_t there = 0;
  for (int64_t row = first; row < last; ++row) there += expected.is_on(rank, row);
  (expected.unjudged == expected.row1 - expected.row0 ? unjudged_ : judged_) +=
      there * slice.cols();
  std::vector<float> line(static_cast<size_t>(slice.cols()));
  for (int64_t row = first; row < last; ++row) {
    if (!expected.is_on(rank, row)) continue;
    const int64_t local = (row - slice.row0) * slice.cols();
    tasks::widen(dtype, output + local * num_bytes(dtype), line.data(), line.size());
    for (int64_t col = 0; col < slice.cols(); ++col) {
      const double got = line[static_cast<size_t>(col)];
      const double value = expected.value(row, slice.col0 + col);
      const double bound = expected.bound(row, slice.col0 + col);
      const double difference = distance(got, value, bound, dtype);
      const double error = bound > 0 ? difference / bound : difference;
      worst_error = std::max(worst_error, error);
      if (difference <= bound) continue;
      if (wrong_elements++ > 0) continue;
      first_wrong = fmt::format("run {}: rank {} {}[{},{}]: got {:.9g}, expected {:.9g}", run, rank,
                                plan.op.tensor(of.tensor).name, row - slice.row0, col, got, value);
      if (bound > 0) first_wrong += fmt::format(", bound {:.3g}", bound);
    }
  }
}

void OutputCheck::conclude() {
  if (judged_ > 0 || unjudged_ == 0 || wrong_elements > 0) return;
  is_judged = false;
  first_wrong = fmt::format(
      "nothing can be said of {} elements: on the way values leave the range of {}, errors grow as "
      "large as values, or choices of experts hang on less than these; take {}parts of the "
      "operator as graphs of their own, or other data",
      unjudged_, to_string(plan.op.dtype), plan.op.dtype == DType::fp32 ? "" : "fp32, ");
}

}  // namespace stretto::emu
