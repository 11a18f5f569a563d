#include "emu/caller.h"

#include <fmt/format.h>

#include <algorithm>

#include "emu/stopwatch.h"
#include "stretto/error.h"

namespace stretto::emu {
namespace {

// The reference is asked for so many rows of the output at a time.
constexpr int64_t kRowsAtATime = 256;

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
    throw WrongBuffer(
        fmt::format("buffer {} on rank {} is {} x {} {}, but {} has {} x {} {} there", of.name,
                    rank, of.rows_on(rank), of.cols, to_string(of.dtype), to_string(plan.op),
                    slice.rows(), slice.cols(), to_string(plan.op.dtype)),
        buffer);
  }
}

}  // namespace

Caller::Caller(const Plan& plan, const EmulateOptions& options, Memory& memory, Faults& faults)
    : plan_(plan),
      options_(options),
      memory_(memory),
      faults_(faults),
      reference_(options.reference ? options.reference : make_shared_reference(0)),
      roundings_(roundings_of(plan)),
      check_(plan),
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
  if (options_.fill == Fill::specials) unify_nans(plan_.op.dtype, *bytes);
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
  if (plan_.op.kind == OpKind::gemm_ar) {  // what is the same is kept once
    ranks_agree_ = ranks_agree_ && std::all_of(of.outputs.begin(), of.outputs.end(),
                                               [&](const Bytes& b) { return b == of.outputs[0]; });
  }
  for (int64_t row0 = 0; row0 < plan_.op.m; row0 += kRowsAtATime) {
    const int64_t row1 = std::min(plan_.op.m, row0 + kRowsAtATime);
    const auto expected = reference_->expected(plan_.op, data(run), roundings_, row0, row1);
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      const std::byte* output = of.outputs[static_cast<size_t>(rank)]->data();
      const bool compared =
          rank > 0 && check_.wrong_elements == 0 && output == of.outputs[0]->data();
      if (!compared) check_.compare(run, rank, output, *expected);
    }
  }
  ++verified_runs_;
}

void Caller::report(EmulateResult& result) const {
  result.wrong_elements = check_.wrong_elements;
  result.worst_error = check_.worst_error;
  result.first_wrong = check_.first_wrong;
  result.verified = verified_runs_ == options_.runs && check_.wrong_elements == 0;
  result.ranks_agree = ranks_agree_;
  result.output_hash = hash_all(hashes_);
}

}  // namespace stretto::emu
