#include "check/program_early.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "check/program_wording.h"
#include "check/wording.h"

namespace stretto::checker {
namespace {

using cuda::Step;
using cuda::StepKind;

// A region that an instruction touches.
struct Touch {
  InstrRef by;
  Region region;
};
using Touches = std::vector<Touch>;

// Null: none of `some` overlaps any of `others`.
std::pair<const Touch*, const Touch*> find_overlap(const Touches& some, const Touches& others) {
  std::set<std::pair<uint16_t, uint16_t>> buffers;
  for (const Touch& other : others) buffers.emplace(other.region.rank, other.region.buffer);
  for (const Touch& one : some) {
    if (buffers.count({one.region.rank, one.region.buffer}) == 0) continue;
    for (const Touch& other : others) {
      if (one.region.overlaps(other.region)) return {&one, &other};
    }
  }
  return {nullptr, nullptr};
}

bool is_combine(CollectiveKind kind) {
  return kind == CollectiveKind::combine || kind == CollectiveKind::combine_all;
}
constexpr size_t kRowsOfCombine = 2;  // among what it reads

class EarlyReads {
 public:
  EarlyReads(const Plan& plan, size_t rank, const cuda::RankProgram& program, Findings& findings)
      : plan_(plan), rank_(rank), program_(program), findings_(findings) {}

  void check() {
    for (uint32_t s = 0; s < program_.streams.size(); ++s) {
      const std::vector<Step>& steps = program_.streams[s].steps;
      for (uint32_t i = 1; i < steps.size(); ++i) {
        look_at({s, i}, std::span(steps).first(i), steps[i]);
      }
    }
    for (uint32_t kernel = 0; kernel < program_.sent.size(); ++kernel) {
      if (program_.sent[kernel]) look_at_sent(kernel, *program_.sent[kernel]);
    }
  }

 private:
  bool is_by_experts(const Step& step) const {
    if (step.kind != StepKind::gemm) return false;
    const cuda::GemmNeeds& needs = program_.needs[step.index];
    return needs.library && needs.grouped;
  }
  bool is_of_few_rows(const Step& step) const {
    return step.kind == StepKind::gemm && program_.needs[step.index].few_rows;
  }

  // Of a GEMM kernel: visit(ref, instruction) for all that it multiplies or goes on with.
  template <typename Visit>
  void for_each_task(uint32_t kernel, const Visit& visit) const {
    for (const cuda::BlockPart& part : program_.gemms[kernel]) {
      for (uint32_t pos = part.begin; pos < part.end; ++pos) {
        const Instr& instr = plan_.lanes[part.lane].instrs[pos];
        if (instr.is_task()) visit(InstrRef{part.lane, pos}, instr);
      }
    }
  }
  Touches writes_of(uint32_t kernel) const {
    Touches all;
    for_each_task(kernel, [&](InstrRef ref, const Instr& instr) {
      for (const Region& region : plan_.writes(instr)) all.push_back({ref, region});
    });
    return all;
  }
  // Of products: what is no row of A.
  Touches weights_of(uint32_t kernel) const {
    Touches all;
    for_each_task(kernel, [&](InstrRef ref, const Instr& instr) {
      if (!is_product(instr.op)) return;
      for (const Region& region : plan_.reads(instr).subspan(1)) all.push_back({ref, region});
    });
    return all;
  }

  // Of the products of experts that end `steps`, one behind the other.
  Touches writes_of_experts(std::span<const Step> steps) const {
    Touches all;
    for (; !steps.empty() && is_by_experts(steps.back()); steps = steps.first(steps.size() - 1)) {
      const Touches own = writes_of(steps.back().index);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  void look_at(StepPlace place, std::span<const Step> before, const Step& step) {
    const Step& ahead = before.back();
    if (is_by_experts(ahead) && is_by_experts(step)) {
      look_at(place, weights_of(step.index), writes_of_experts(before));
    } else if (is_by_experts(ahead) && step.kind == StepKind::collective) {
      const Instr& instr = step.instr(plan_);
      if (!is_combine(instr.collective)) return;
      Touches early;
      const std::span<const Region> reads = plan_.reads(instr);
      for (size_t i = 0; i < reads.size(); ++i) {
        if (i != kRowsOfCombine) early.push_back({{step.lane, step.position}, reads[i]});
      }
      look_at(place, early, writes_of_experts(before));
    } else if (is_of_few_rows(step) &&
               (is_of_few_rows(ahead) || ahead.kind == StepKind::collective)) {
      look_at(place, given_weights_of(step.index), writes_of_inputs());
    }
  }
  void look_at(StepPlace place, const Touches& early, const Touches& writes) {
    const auto [read, write] = find_overlap(early, writes);
    if (read == nullptr) return;
    findings_.add(DiagnosticKind::early_read, rank_, [&, read = read, write = write] {
      Diagnostic d;
      d.where = read->by;
      d.other = write->by;
      d.message = fmt::format("{} in {} may read {} before {} has written it", at(plan_, read->by),
                              at(plan_, program_, rank_, place), describe(plan_, read->region),
                              at(plan_, write->by));
      d.hint =
          "what a kernel reads before the one ahead of it has ended should not be written there";
      return d;
    });
  }

  Touches given_weights_of(uint32_t kernel) const {
    Touches all = weights_of(kernel);
    std::erase_if(all, [&](const Touch& one) {
      return plan_.buffers[one.region.buffer].role != BufferRole::input;
    });
    return all;
  }
  // Hardly ever any: found once, since a plan may have thousands of kernels.
  const Touches& writes_of_inputs() {
    if (writes_of_inputs_) return *writes_of_inputs_;
    writes_of_inputs_.emplace();
    for (uint32_t l = 0; l < plan_.lanes.size(); ++l) {
      const std::vector<Instr>& instrs = plan_.lanes[l].instrs;
      for (uint32_t pos = 0; pos < instrs.size(); ++pos) {
        for (const Region& region : plan_.writes(instrs[pos])) {
          if (plan_.buffers[region.buffer].role != BufferRole::input) continue;
          writes_of_inputs_->push_back({{l, pos}, region});
        }
      }
    }
    return *writes_of_inputs_;
  }

  // By a plan of thousands of products each has its own, so they are found once.
  const Touches& reads_of(uint32_t buffer) {
    if (reads_.empty()) {
      reads_.resize(plan_.buffers.size());
      for (uint32_t l = 0; l < plan_.lanes.size(); ++l) {
        const std::vector<Instr>& instrs = plan_.lanes[l].instrs;
        for (uint32_t pos = 0; pos < instrs.size(); ++pos) {
          for (const Region& region : plan_.reads(instrs[pos])) {
            reads_[region.buffer].push_back({{l, pos}, region});
          }
        }
      }
    }
    return reads_[buffer];
  }

  // Nobody but the collective reads what is sent to it, and it writes nothing that the kernel
  // reads.
  void look_at_sent(uint32_t kernel, const Step& receiver) {
    const InstrRef taker{receiver.lane, receiver.position};
    Touches sent, read, taken, others;
    for_each_task(kernel, [&](InstrRef ref, const Instr& instr) {
      const uint32_t next = ref.pos + 1;
      const std::vector<Instr>& instrs = plan_.lanes[ref.lane].instrs;
      const bool goes_on = next < instrs.size() && instrs[next].fused;
      for (const Region& region : plan_.reads(instr)) read.push_back({ref, region});
      if (goes_on) return;  // what lies between stays in registers
      for (const Region& region : plan_.writes(instr)) sent.push_back({ref, region});
    });
    for (const Region& region : plan_.writes(receiver.instr(plan_))) {
      taken.push_back({taker, region});
    }
    std::set<uint32_t> buffers;
    for (const Touch& one : sent) buffers.insert(one.region.buffer);
    for (const uint32_t buffer : buffers) {
      for (const Touch& one : reads_of(buffer)) {
        if (one.by != taker) others.push_back(one);
      }
    }
    const auto missed = find_overlap(sent, others), early = find_overlap(taken, read);
    const bool is_missed = missed.first != nullptr;
    if (!is_missed && early.first == nullptr) return;
    const auto [one, other] = is_missed ? missed : early;
    findings_.add(DiagnosticKind::early_read, rank_, [&, one = one, other = other] {
      Diagnostic d;
      d.where = one->by;
      d.other = other->by;
      d.message =
          is_missed
              ? fmt::format("{} is sent to {} and never stored, and {} reads {}",
                            at(plan_, one->by), at(plan_, taker), at(plan_, other->by),
                            describe(plan_, other->region))
              : fmt::format("{} may write {} before {}, which sends to it, has read it",
                            at(plan_, one->by), describe(plan_, one->region), at(plan_, other->by));
      d.hint = is_missed ? "a product that others read should be stored"
                         : "the collective should write elsewhere, or the product be stored";
      return d;
    });
  }

  const Plan& plan_;
  size_t rank_;
  const cuda::RankProgram& program_;
  Findings& findings_;
  std::vector<Touches> reads_;  // by buffer, of the whole plan
  std::optional<Touches> writes_of_inputs_;
};

}  // namespace

void check_early_reads(const Plan& plan, const std::vector<cuda::RankProgram>& programs,
                       Findings& findings) {
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    EarlyReads(plan, rank, programs[rank], findings).check();
  }
}

}  // namespace stretto::checker
