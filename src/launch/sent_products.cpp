#include "launch/sent_products.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/library_limits.h"
#include "plan/sent_terms.h"
#include "stretto/schedule.h"

namespace stretto::cuda {
namespace {

bool takes_sums(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_reduce ||
         kind == CollectiveKind::all_reduce_norm;
}

// Of what the collective reads, all that it adds up: a norm has other operands besides.
std::span<const Region> terms_of(const Plan& plan, const Instr& collective) {
  const std::span<const Region> reads = plan.reads(collective);
  return collective.collective == CollectiveKind::all_reduce_norm ? reads.first(1) : reads;
}

}  // namespace

SentProducts::SentProducts(const Plan& plan) : plan_(plan) {
  if (!plan.any_few_rows()) return;
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
    for (uint32_t at = 0; at < instrs.size(); ++at) {
      for (const Region& read : plan.reads(instrs[at])) {
        std::vector<InstrRef>& readers = readers_[{read.rank, read.buffer}];
        if (readers.empty() || readers.back() != InstrRef{lane, at}) readers.push_back({lane, at});
      }
    }
  }
}

const std::vector<InstrRef>& SentProducts::readers_of(const Region& stored) const {
  static const std::vector<InstrRef> kNone;
  const auto found = readers_.find({stored.rank, stored.buffer});
  return found == readers_.end() ? kNone : found->second;
}

std::string SentProducts::why_not(const Product& one) const {
  const std::string& name = plan_.buffers[one.c.buffer].name;
  const std::vector<InstrRef>& readers = readers_of(one.c);
  if (readers.size() != 1 || plan_.buffers[one.c.buffer].role == BufferRole::output) {
    return fmt::format("nothing but one collective reads {}, where the product would lie", name);
  }
  const Lane& lane = plan_.lanes[readers.front().lane];
  const Instr& reader = lane.instrs[readers.front().pos];
  if (reader.op != Opcode::collective || !takes_sums(reader.collective) ||
      lane.rank != one.c.rank) {
    return fmt::format("a sum of all ranks takes {}, on its own rank", name);
  }
  if (one.c.cols() != plan_.buffers[one.c.buffer].cols) {
    return fmt::format("the product has all columns of {}", name);
  }
  int64_t taken = 0;
  for (const Region& term : terms_of(plan_, reader)) {
    if (term.empty()) continue;  // of an owner without rows
    const bool is_part = term.buffer == one.c.buffer && term.rank == one.c.rank &&
                         term.row0 >= one.c.row0 && term.row1 <= one.c.row1 &&
                         term.col0 == one.c.col0 && term.col1 == one.c.col1;
    if (!is_part) return fmt::format("the collective that takes {} adds up nothing else", name);
    taken += term.elements();
  }
  if (taken != one.c.elements()) return fmt::format("the collective takes all of {}", name);
  for (const Region& to : plan_.writes(reader)) {
    const std::vector<Region> reads = one.reads();
    if (std::any_of(reads.begin(), reads.end(),
                    [&](const Region& read) { return to.overlaps(read); })) {
      return fmt::format("the collective that takes {} writes nothing that the product reads",
                         name);
    }
  }
  return "";
}

FewRowsShape few_rows_shape(const Plan& plan, const Product& one) {
  FewRowsShape shape{one.c.rows(), one.c.cols(), one.a.cols(), plan.buffers[one.a.buffer].dtype};
  shape.has_bias = one.bias[0] || one.bias[1];
  if (one.activation) shape.follower = follower_of(*one.activation);
  shape.sent = times_sent(plan)[one.c.buffer];
  return shape;
}

std::string why_no_few_rows(const Plan& plan, const std::vector<Product>& products) {
  if (products.size() != 1) {
    return fmt::format("those of few rows are one product of a kernel, not {}", products.size());
  }
  const Product& one = products.front();
  if (plan.buffers[one.c.buffer].dtype != plan.op.dtype) {
    return "few rows are stored in the type in which they are multiplied";
  }
  std::vector<Region> regions = one.reads();
  regions.push_back(one.c);
  for (const Region& region : regions) {
    const int64_t size = num_bytes(plan.op.dtype);
    const int64_t row = plan.buffers[region.buffer].cols;
    if (row * size % kFewRowsBytes == 0 && region.col0 * size % kFewRowsBytes == 0) continue;
    return fmt::format(
        "few rows are loaded and stored in pieces of {} bytes, in which {} does not "
        "lie",
        kFewRowsBytes, describe(plan, region));
  }
  return why_no_few_rows(few_rows_shape(plan, one));
}

void find_receivers(const Plan& plan, const TileSums& sums, std::vector<RankProgram>& programs) {
  for (RankProgram& program : programs) program.sent.resize(program.gemms.size());
  if (!plan.any_few_rows() || !why_no_products(plan, sums).empty()) return;
  const SentProducts sent(plan);
  std::map<int32_t, int> senders;  // by collective
  const auto id_of = [&](const std::optional<Step>& step) { return step->instr(plan).id; };
  for (RankProgram& program : programs) {
    for (size_t kernel = 0; kernel < program.gemms.size(); ++kernel) {
      if (!program.needs[kernel].few_rows) continue;
      const Product one = products_of(plan, program.gemms[kernel]).front();
      if (!sent.why_not(one).empty()) continue;
      const InstrRef taker = sent.readers_of(one.c).front();
      program.sent[kernel] = Step{StepKind::collective, 0, taker.lane, taker.pos};
      ++senders[id_of(program.sent[kernel])];
    }
  }
  // Who only receives has no terms of its own to send: all ranks' kernels do.
  for (RankProgram& program : programs) {
    for (std::optional<Step>& step : program.sent) {
      if (step && senders[id_of(step)] != plan.ranks()) step.reset();
    }
  }
}

}  // namespace stretto::cuda
