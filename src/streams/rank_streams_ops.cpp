// What the runs of a rank consist of: an op for each step of its program, and how it is enqueued.
#include <algorithm>

#include "launch/expert_chain.h"
#include "streams/rank_streams.h"
#include "stretto/error.h"
#include "tables/call_lists.h"

namespace stretto::runtime {

using cuda::Step;
using cuda::StepKind;
using cuda::Stream;

// A library's blocks for which movers leave no SM would run after all the others, in the time of
// two products. Movers stay until their last task has ended. Of SMs that are left free to others it
// takes none where it can: its blocks end by themselves, but others would wait for them.
int RankStreams::sms_for_library() const {
  return setup_.device.free_sms() > 0 ? setup_.device.num_sms() : 0;
}

int RankStreams::sms_beside_movers() const {
  const cuda::RankProgram& program = setup_.program;
  for (const cuda::StepStream& stream : program.streams) {
    if (stream.kind != LaneKind::comm) continue;
    const auto blocks = static_cast<int>(program.moves[stream.steps.front().index].size());
    return std::max(1, setup_.device.num_sms() - blocks);
  }
  return sms_for_library();
}

// Where a library multiplies: by cuBLAS, by the kernel of few rows or by those of experts.
void RankStreams::add_product(uint32_t kernel) {
  const cuda::RankProgram& program = setup_.program;
  const cuda::GemmNeeds& needs = program.needs[kernel];
  const std::vector<cuda::BlockPart>& parts = program.gemms[kernel];
  // All that a gather's last kernel reads has come; of a reduction's last movers wait to send it.
  const bool is_alone = kernel + 1 == program.gemms.size() && !setup_.plan.op.ends_with_terms();
  const int sms = is_alone ? sms_for_library() : sms_beside_movers();
  const bool by_experts = cuda::is_by_experts(needs);
  if (needs.few_rows) {
    const std::vector<cuda::Product> found = cuda::products_of(setup_.plan, parts);
    STRETTO_ASSERT(found.size() == 1, "a kernel of few rows has one product");
    few_rows_.add(kernel, found.front());
  }
  // Where a rank has no experts, nothing is launched.
  std::optional<uint32_t> ahead = cuda::experts_ahead(program, kernel);
  if (ahead) ahead = program.number_of_kind(*ahead);
  if (ahead && !experts_.has(*ahead)) ahead.reset();
  experts_.add(by_experts ? cuda::expert_products_of(setup_.plan, *program.sums, parts)
                          : std::vector<cuda::ExpertProduct>(),
               needs, sms, ahead);
  if (by_experts || needs.few_rows) {
    library_.add_none();
  } else {
    library_.add(cuda::products_of(setup_.plan, parts), *needs.library, sms);
  }
}

void RankStreams::add_ops() {
  const cuda::RankProgram& program = setup_.program;
  for (size_t at = 0; at < program.order.size();) {
    const auto [stream, position] = program.order[at];
    const Step& step = program.streams[stream].steps[position];
    // Waits that follow each other in a stream are one kernel, and so are notifies.
    std::vector<Step> same = {step};
    for (++at; at < program.order.size() && program.order[at].first == stream; ++at) {
      const Step& next = program.streams[stream].steps[program.order[at].second];
      if (next.kind != step.kind ||
          (step.kind != StepKind::wait && step.kind != StepKind::notify)) {
        break;
      }
      same.push_back(next);
    }
    switch (step.kind) {
      case StepKind::gemm:
        ops_.push_back({StreamOp::gemm, stream, step.index});
        break;
      case StepKind::move:
        ops_.push_back({StreamOp::move, stream, step.index});
        break;
      case StepKind::wait:
      case StepKind::notify: {
        const uint32_t first = signals_.num_acts();
        if (step.kind == StepKind::wait) {
          signals_.add_waits(same);
        } else {
          signals_.add_notifies(same);
        }
        for (uint32_t act = first; act < signals_.num_acts(); ++act) {
          ops_.push_back({StreamOp::signal, stream, act});
        }
        break;
      }
      case StepKind::copy:
        add_copy(stream, step);
        break;
      case StepKind::collective:
        add_collective(stream, step);
        break;
      case StepKind::route:
        collectives_.add_route(step);
        break;
      case StepKind::record:
        ops_.push_back({StreamOp::record, stream, step.index});
        break;
      case StepKind::await:
        ops_.push_back({StreamOp::await, stream, step.index});
        break;
    }
  }
}

void RankStreams::add_copy(uint32_t stream, const Step& step) {
  ops_.push_back({StreamOp::copy, stream, static_cast<uint32_t>(copies_.size())});
  auto& by_set = copies_.emplace_back();
  for (int set = 0; set < sets_; ++set) {
    by_set.push_back(cuda::transfers_of(setup_.plan, step.instr(setup_.plan), setup_.places, set));
  }
}

void RankStreams::add_collective(uint32_t stream, const Step& step) {
  const uint32_t number = collectives_.size();
  ops_.push_back({StreamOp::collective, stream, number});
  collectives_.add(step);
  if (collectives_.is_nccls(number)) return;
  for (uint32_t kernel = 0; kernel < setup_.program.sent.size(); ++kernel) {
    if (setup_.program.sent[kernel] == step) few_rows_.send(kernel, number);
  }
}

bool RankStreams::do_places_alternate() const {
  const bool copies = std::any_of(copies_.begin(), copies_.end(), [](const auto& by_set) {
    return std::any_of(by_set.begin(), by_set.end(),
                       [&](const auto& of_set) { return of_set != by_set.front(); });
  });
  return copies || library_.alternates() || experts_.alternates() || few_rows_.alternates() ||
         collectives_.alternates() || signals_.alternates();
}

bool RankStreams::is_kernel_of_ours(uint32_t gemm) const {
  if (!setup_.program.needs[gemm].library) return true;
  return !library_.has(setup_.program.number_of_kind(gemm));  // of experts
}

bool RankStreams::starts_early(const Op& op) const {
  const auto is_ours = [&](const Op& one) {
    return one.kind == StreamOp::move ||
           (one.kind == StreamOp::signal && signals_.is_kernel(one.index)) ||
           (one.kind == StreamOp::gemm && is_kernel_of_ours(one.index));
  };
  // A collective may await other ranks while the next kernel's blocks take their SMs: its own have
  // all of theirs by then, and what other ranks do hangs on no other kernel here.
  const auto lets_next_start = [&](const Op& one) {
    return is_ours(one) || (one.kind == StreamOp::collective && !collectives_.is_nccls(one.index));
  };
  const auto at = static_cast<size_t>(&op - ops_.data());
  if (at == 0) return overlaps_;
  return kernels_overlap_ && is_ours(op) && lets_next_start(ops_[at - 1]);
}

const RankStreams::Op* RankStreams::ahead_of(const Op& op) const {
  const auto at = static_cast<size_t>(&op - ops_.data());
  return at > 0 && ops_[at - 1].stream == op.stream ? &ops_[at - 1] : nullptr;
}

bool RankStreams::is_behind_experts(const Op& op) const {
  const Op* const ahead = ahead_of(op);
  return ahead != nullptr && ahead->kind == StreamOp::gemm &&
         cuda::is_by_experts(setup_.program.needs[ahead->index]) &&
         experts_.has(setup_.program.number_of_kind(ahead->index));
}

// A kernel of a collective waits for its stream itself, and lets the next one start before it has
// ended; it writes none of the weights that a caller gives, nor does another product of few rows. A
// run's first kernel is behind the caller's, which may write them: its weights are never early. Nor
// are those behind a collective of no rows, for which nothing is launched.
void RankStreams::multiply_few_rows(const Op& op, const Stream& stream, int set,
                                    const RowsOfCall& rows) const {
  const Op* ahead = ahead_of(op);
  const bool is_behind_sums = ahead != nullptr && ahead->kind == StreamOp::collective &&
                              collectives_.is_kernel(ahead->index, set);
  const bool is_behind_product = ahead != nullptr && ahead->kind == StreamOp::gemm &&
                                 setup_.program.needs[ahead->index].few_rows;
  const bool overlaps = starts_early(op) || (kernels_overlap_ && is_behind_sums);
  few_rows_.launch(op.index, stream, set, rows, call_.places, overlaps,
                   overlaps && (is_behind_sums || is_behind_product));
}

// Others begin behind all that their stream did, whenever they are started.
bool RankStreams::receives_early(const Op& op, int set, const cuda::LowLatencyCall& call) const {
  const std::optional<uint32_t> sender = few_rows_.sender(op.index);
  if (!sender) return true;
  const Op* ahead = ahead_of(op);
  return ahead != nullptr && ahead->kind == StreamOp::gemm && ahead->index == *sender &&
         few_rows_.is_clear_of(*sender, set, call, call_.places);
}

void RankStreams::issue(const Op& op, const Stream& stream, int set, const RowsOfCall& rows) {
  switch (op.kind) {
    case StreamOp::gemm:
      multiply(op, stream, set, rows);
      break;
    case StreamOp::move:
      tables_.move(op.index, stream, {rows, call_.blob}, starts_early(op));
      break;
    case StreamOp::signal:
      signals_.enqueue(op.index, stream, set, op.stream != 0, starts_early(op));
      break;
    case StreamOp::copy:
      for (const cuda::Transfer& transfer : copies_[op.index][static_cast<size_t>(set)]) {
        const cuda::Transfer made = cuda::at_call(transfer, call_.places);
        if (made.rows > 0) cuda::enqueue_transfer(stream, made);
      }
      break;
    case StreamOp::collective:
      make_collective(op, stream, set, rows);
      break;
    case StreamOp::record:
      events_[op.index]->record(stream);
      break;
    case StreamOp::await:
      stream.wait(*events_[op.index]);
      break;
  }
}

void RankStreams::multiply(const Op& op, const Stream& stream, int set, const RowsOfCall& rows) {
  const cuda::GemmNeeds& needs = setup_.program.needs[op.index];
  if (needs.few_rows) {
    multiply_few_rows(op, stream, set, rows);
  } else if (needs.library) {
    const uint32_t number = setup_.program.number_of_kind(op.index);
    // Behind another of experts whatever other streams do: its blocks wait for that kernel alone,
    // which has its SMs by then and waits for nobody.
    const bool is_early =
        starts_early(op) || (setup_.device.can_overlap() && is_behind_experts(op));
    experts_.launch(number, stream, is_early, kernels_overlap_);
    library_.launch(number, stream, set, rows, call_.places);
  } else {
    tables_.multiply(op.index, stream, {rows, call_.blob}, starts_early(op));
  }
}

void RankStreams::make_collective(const Op& op, const Stream& stream, int set,
                                  const RowsOfCall& rows) const {
  if (collectives_.is_nccls(op.index)) {
    collectives_.make(op.index, stream, set, call_.places);
    return;
  }
  cuda::LowLatencyCall call = collectives_.call(op.index, set, rows, call_.places);
  if (call.chosen.counts_bad_ids || call.routed.entry_rows != 0) {
    call.chosen.bad_ids = tables_.bad_ids_at();
  }
  // Experts' products write neither ids nor weights nor a partition. The first of them waits for
  // its stream before it lets the next kernel start, and those behind it start no sooner.
  call.chosen.looks_early = setup_.device.can_overlap() && is_behind_experts(op);
  collectives_.launch(op.index, stream, call, receives_early(op, set, call));
}

}  // namespace stretto::runtime
