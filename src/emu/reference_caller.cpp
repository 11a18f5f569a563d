#include "emu/reference_caller.h"

#include <fmt/format.h>

#include <algorithm>

#include "emu/stopwatch.h"
#include "stretto/error.h"

namespace stretto::emu {
namespace {

// The reference is asked for so many rows of the output at a time.
constexpr int64_t kRowsAtATime = 256;

}  // namespace

ReferenceCaller::ReferenceCaller(const Plan& plan, const EmulateOptions& options, Memory& memory,
                                 Faults& faults)
    : Caller(plan, memory),
      options_(options),
      faults_(faults),
      reference_(options.reference ? options.reference : make_shared_reference(0)),
      roundings_(roundings_of(plan)),
      check_(plan),
      hashes_(static_cast<size_t>(options.runs) * static_cast<size_t>(plan.ranks()) *
              plan.op.outputs.size()) {}

InputData ReferenceCaller::data(int run) const {
  return {options_.fill, options_.data_seed + static_cast<uint64_t>(run), options_.routing};
}

void ReferenceCaller::write_inputs(int rank, int run) {
  const Stopwatch watch(seconds_);
  for (const Bound& input : inputs_) {
    const SharedReference::Bytes values =
        reference_->input(plan_.op, data(run), input.tensor, rank);
    const Region whole = memory_.whole(input.buffer, rank);
    memory_.write(whole, run, values->data(), whole.cols());
  }
}

void ReferenceCaller::read_output(int rank, int run) {
  const Stopwatch watch(seconds_);
  Run& of = runs_[run];
  of.outputs.resize(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Region whole = memory_.whole(outputs_[i].buffer, rank);
    if (const Unfit unfit = memory_.examine(whole, run); unfit.count() > 0) {
      faults_.unfit_output(rank, run, whole, unfit);
    }
    auto bytes = std::make_shared<std::vector<std::byte>>(rows_of(whole, run));
    if (options_.fill == Fill::specials) unify_nans(memory_.buffer(whole).dtype, *bytes);
    const size_t ranks = static_cast<size_t>(plan_.ranks());
    hashes_[(static_cast<size_t>(run) * outputs_.size() + i) * ranks + static_cast<size_t>(rank)] =
        hash_bytes(*bytes);
    of.outputs[i].resize(ranks);
    Bytes& own = of.outputs[i][static_cast<size_t>(rank)];
    own = std::move(bytes);
    // Where every rank has the same, keep it once.
    for (const Bytes& other : of.outputs[i]) {
      if (other && other != own && plan_.op.outputs[i].held == Held::whole && *other == *own) {
        own = other;
        break;
      }
    }
  }
  if (++of.read < plan_.ranks()) return;
  verify(run, of);
  runs_.erase(run);
}

void ReferenceCaller::verify(int run, const Run& of) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (plan_.op.outputs[i].held != Held::whole) continue;  // what is the same is kept once
    const std::vector<Bytes>& outputs = of.outputs[i];
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      ranks_agree_ = ranks_agree_ && outputs[static_cast<size_t>(rank)] ==
                                         outputs[first_of_team(outputs_[i].tensor, rank)];
    }
  }
  const int64_t rows = rows_to_expect(plan_.op);
  for (int64_t row0 = 0; row0 < rows; row0 += kRowsAtATime) {
    const int64_t row1 = std::min(rows, row0 + kRowsAtATime);
    const auto expected = reference_->expected(plan_.op, data(run), roundings_, row0, row1);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      for (int rank = 0; rank < plan_.ranks(); ++rank) {
        const std::byte* output = of.outputs[i][static_cast<size_t>(rank)]->data();
        const size_t like = first_of_team(outputs_[i].tensor, rank);
        const bool compared = like != static_cast<size_t>(rank) && check_.wrong_elements == 0 &&
                              output == of.outputs[i][like]->data();
        if (!compared) check_.compare(run, rank, i, output, (*expected)[i]);
      }
    }
  }
  ++verified_runs_;
}

void ReferenceCaller::report(EmulateResult& result) const {
  OutputCheck check = check_;
  check.conclude();
  result.wrong_elements = check.wrong_elements;
  result.worst_error = check.worst_error;
  result.first_wrong = check.first_wrong;
  result.is_judged = check.is_judged;
  result.verified = verified_runs_ == options_.runs && check.wrong_elements == 0 && check.is_judged;
  result.ranks_agree = ranks_agree_;
  result.output_hash = hash_all(hashes_);
}

}  // namespace stretto::emu
