#include "emu/caller.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "emu/elements.h"
#include "emu/stopwatch.h"
#include "stretto/error.h"

namespace stretto::emu {
namespace {

// The reference is asked for so many rows of the output at a time.
constexpr int64_t kRowsAtATime = 256;

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

uint16_t find(const Plan& plan, const char* name, BufferRole role) {
  const auto buffer = plan.find_buffer(name);
  if (!buffer || plan.buffers[*buffer].role != role) {
    throw UsageError(fmt::format("a plan that runs needs an {} buffer named {}; this one has none",
                                 to_string(role), name));
  }
  return *buffer;
}

void expect_shape(const Plan& plan, uint16_t buffer, int rank, const Slice& slice) {
  const Buffer& of = plan.buffers[buffer];
  if (of.rows_on(rank) != slice.rows() || of.cols != slice.cols() || of.dtype != plan.op.dtype) {
    throw UsageError(fmt::format("buffer {} on rank {} is {} x {} {}, but {} has {} x {} {} there",
                                 of.name, rank, of.rows_on(rank), of.cols, to_string(of.dtype),
                                 to_string(plan.op), slice.rows(), slice.cols(),
                                 to_string(plan.op.dtype)));
  }
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
      if (instr.op == Opcode::reduce) {
        for (const Region& read : plan.reads(instr)) account(read, 1);
      } else if (instr.op == Opcode::collective && instr.collective != CollectiveKind::all_gather) {
        // Once when it is stored, then at each of ranks - 1 hops.
        for (const Region& read : plan.reads(instr)) account(read, plan.ranks());
      }
    }
  }
  return found;
}

Caller::Caller(const Plan& plan, const EmulateOptions& options, Memory& memory, Faults& faults)
    : plan_(plan),
      options_(options),
      memory_(memory),
      faults_(faults),
      reference_(options.reference ? options.reference : make_shared_reference(0)),
      roundings_(roundings_of(plan)),
      a_(find(plan, "a", BufferRole::input)),
      b_(find(plan, "b", BufferRole::input)),
      out_(find(plan, "out", BufferRole::output)),
      hashes_(static_cast<size_t>(options.runs) * static_cast<size_t>(plan.ranks())) {
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    expect_shape(plan, a_, rank, input_slice(plan.op, Input::a, rank));
    expect_shape(plan, b_, rank, input_slice(plan.op, Input::b, rank));
    expect_shape(plan, out_, rank, output_slice(plan.op, rank));
  }
}

InputData Caller::data(int run) const {
  return {options_.fill, options_.data_seed + static_cast<uint64_t>(run)};
}

void Caller::write_input(uint16_t buffer, Input input, int rank, int run) {
  const SharedReference::Bytes values = reference_->input(plan_.op, data(run), input, rank);
  memory_.write(memory_.whole(buffer, rank), run, values->data(), plan_.buffers[buffer].cols);
}

void Caller::write_inputs(int rank, int run) {
  const Stopwatch watch(seconds_);
  write_input(a_, Input::a, rank, run);
  write_input(b_, Input::b, rank, run);
}

void Caller::read_output(int rank, int run) {
  const Stopwatch watch(seconds_);
  const Region whole = memory_.whole(out_, rank);
  if (const Unfit unfit = memory_.examine(whole, run); unfit.count() > 0) {
    faults_.unfit_output(rank, run, whole, unfit);
  }
  auto bytes = std::make_shared<std::vector<std::byte>>(
      static_cast<size_t>(whole.elements() * num_bytes(plan_.op.dtype)));
  memory_.read(whole, run, bytes->data());
  hashes_[static_cast<size_t>(run) * static_cast<size_t>(plan_.ranks()) +
          static_cast<size_t>(rank)] = hash_bytes(*bytes);

  Run& of = runs_[run];
  of.outputs.resize(static_cast<size_t>(plan_.ranks()));
  Bytes& own = of.outputs[static_cast<size_t>(rank)];
  own = std::move(bytes);
  // All-reduce: every rank has the same; keep it once.
  for (const Bytes& other : of.outputs) {
    if (other && other != own && plan_.op.kind == OpKind::gemm_ar && *other == *own) {
      own = other;
      break;
    }
  }
  if (++of.read < plan_.ranks()) return;
  verify(run, of);
  runs_.erase(run);
}

void Caller::verify(int run, const Run& of) {
  for (int64_t row0 = 0; row0 < plan_.op.m; row0 += kRowsAtATime) {
    const int64_t row1 = std::min(plan_.op.m, row0 + kRowsAtATime);
    const auto expected = reference_->expected(plan_.op, data(run), roundings_, row0, row1);
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      const std::byte* output = of.outputs[static_cast<size_t>(rank)]->data();
      const bool compared = rank > 0 && wrong_elements_ == 0 && output == of.outputs[0]->data();
      if (!compared) compare(run, rank, output, *expected);
    }
  }
  ++verified_runs_;
}

void Caller::compare(int run, int rank, const std::byte* output, const ExpectedRows& expected) {
  const Slice slice = output_slice(plan_.op, rank);
  const int64_t first = std::max(slice.row0, expected.row0);
  const int64_t last = std::min(slice.row1, expected.row1);
  std::vector<float> line(static_cast<size_t>(slice.cols()));
  for (int64_t row = first; row < last; ++row) {
    const int64_t local = (row - slice.row0) * slice.cols();
    widen(plan_.op.dtype, output + local * num_bytes(plan_.op.dtype), line.data(), line.size());
    for (int64_t col = 0; col < slice.cols(); ++col) {
      const double got = line[static_cast<size_t>(col)];
      const double value = expected.value(row, slice.col0 + col);
      const double bound = expected.bound(row, slice.col0 + col);
      const double difference = std::fabs(got - value);
      const double error = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                           : bound > 0            ? difference / bound
                                                  : difference;
      worst_error_ = std::max(worst_error_, error);
      if (difference <= bound) continue;  // false for NaN
      if (wrong_elements_++ > 0) continue;
      first_wrong_ = fmt::format("run {}: rank {} out[{},{}]: got {:.9g}, expected {:.9g}", run,
                                 rank, row - slice.row0, col, got, value);
      if (bound > 0) first_wrong_ += fmt::format(", bound {:.3g}", bound);
    }
  }
}

void Caller::report(EmulateResult& result) const {
  result.wrong_elements = wrong_elements_;
  result.worst_error = worst_error_;
  result.first_wrong = first_wrong_;
  result.verified = verified_runs_ == options_.runs && wrong_elements_ == 0;
  for (const uint64_t hash : hashes_) {
    result.output_hash = (result.output_hash ^ hash) * 0x9E3779B97F4A7C15u;
    result.output_hash ^= result.output_hash >> 32;
  }
}

}  // namespace stretto::emu
