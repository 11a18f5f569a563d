#include "launch/sent_products.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/few_rows_kernel.h"
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

std::string why_no_size(const Plan& plan, const Product& one) {
  if (plan.buffers[one.c.buffer].dtype != plan.op.dtype) {
    return "they are stored in the type in which they are multiplied";
  }
  if (one.c.rows() > kMostFewRows) {
    return fmt::format("they have at most {} rows, not {}", kMostFewRows, one.c.rows());
  }
  return why_no_few_rows({one.c.rows(), one.c.cols(), one.a.cols(), plan.op.dtype});
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

std::string SentProducts::why_not(const std::vector<Product>& products) const {
  if (products.size() != 1) {
    return fmt::format("those of a kernel are one product, not {}", products.size());
  }
  const Product& one = products.front();
  if (std::string why = why_no_size(plan_, one); !why.empty()) return why;
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
    const bool is_part = term.buffer == one.c.buffer && term.rank == one.c.rank &&
                         term.row0 >= one.c.row0 && term.row1 <= one.c.row1 &&
                         term.col0 == one.c.col0 && term.col1 == one.c.col1;
    if (!is_part) return fmt::format("the collective that takes {} adds up nothing else", name);
    taken += term.elements();
  }
  if (taken != one.c.elements()) return fmt::format("the collective takes all of {}", name);
  for (const Region& to : plan_.writes(reader)) {
    if (to.overlaps(one.a) || to.overlaps(one.b)) {
      return fmt::format("the collective that takes {} writes nothing that the product reads",
                         name);
    }
  }
  return "";
}

void find_receivers(const Plan& plan, std::vector<RankProgram>& programs) {
  if (!plan.any_few_rows()) return;
  const SentProducts sent(plan);
  for (RankProgram& program : programs) {
    program.sent.resize(program.gemms.size());
    for (size_t kernel = 0; kernel < program.gemms.size(); ++kernel) {
      if (!program.needs[kernel].few_rows) continue;
      const BlockPart& part = program.gemms[kernel].front();
      const Instr& gemm = plan.lanes[part.lane].instrs[part.begin];
      const std::vector<InstrRef>& readers = sent.readers_of(plan.writes(gemm).front());
      if (readers.size() != 1) continue;
      program.sent[kernel] =
          Step{StepKind::collective, 0, readers.front().lane, readers.front().pos};
    }
  }
}

}  // namespace stretto::cuda
