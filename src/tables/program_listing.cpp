#include "tables/program_listing.h"

#include <fmt/format.h>

#include "gpu/gemm_kernel.h"
#include "gpu/grouped_kernel.h"
#include "launch/expert_products.h"
#include "launch/gemm_choice.h"
#include "launch/passes.h"
#include "launch/signal_layout.h"
#include "tables/copied_notifies.h"
#include "tables/mover_tasks.h"

namespace stretto::cuda {
namespace {

std::string library_text(int algorithm) {
  return algorithm == 0 ? "library" : fmt::format("library algorithm={}", algorithm);
}

class Lister {
 public:
  Lister(const Plan& plan, const std::vector<RankProgram>& programs)
      : plan_(plan),
        programs_(programs),
        signals_(plan, programs, /*stream_waits=*/true),
        copied_(plan, signals_) {}

  ListedRank list(int rank) const {
    const RankProgram& program = programs_[static_cast<size_t>(rank)];
    ListedRank listed;
    for (size_t i = 0; i < program.gemms.size(); ++i) {
      ListedKernel& kernel = listed.gemms.emplace_back();
      const GemmNeeds& needs = program.needs[i];
      kernel.config = is_by_experts(needs) ? experts_text(program, i)
                      : needs.few_rows     ? "few-rows"
                      : needs.library      ? library_text(*needs.library)
                                           : describe(config_for(plan_, needs));
      for (size_t b = 0; b < program.gemms[i].size(); ++b) {
        BlockPart part = program.gemms[i][b];
        if (program.rows[i]) part.end = program.moves[*program.rows[i]][b].begin;
        kernel.blocks.push_back(gemm_block(part, needs.library.has_value()));
      }
    }
    for (size_t i = 0; i < program.moves.size(); ++i) {
      const std::vector<BlockPart>& parts = program.moves[i];
      ListedKernel& kernel = listed.moves.emplace_back();
      const bool in_gemm = program.is_in_gemm(i);
      const int cluster = in_gemm ? 0 : partition_blocks(plan_, parts);
      kernel.config = in_gemm                          ? "in gemm"
                      : cluster != 0                   ? fmt::format("partition {}", cluster)
                      : is_pass(plan_, program, parts) ? "pass"
                                                       : "own kernel";
      for (const BlockPart& part : parts) kernel.blocks.push_back(mover_block(part));
    }
    for (const StepStream& stream : program.streams) {
      listed.streams.push_back({stream.kind, stream.index});
    }
    for (const auto& [stream, at] : program.order) {
      listed.steps.push_back(step(rank, stream, program.streams[stream].steps[at]));
    }
    return listed;
  }

 private:
  // Of several products of a kernel each, in turns.
  std::string experts_text(const RankProgram& program, size_t kernel) const {
    std::string text;
    for (const ExpertProduct& one :
         expert_products_of(plan_, *program.sums, program.gemms[kernel])) {
      const device::GroupedConfig config = config_for(plan_, program.needs[kernel], one);
      text += fmt::format("{}experts {}", text.empty() ? "" : ", ", describe(config));
    }
    return text;
  }
  ListedInstr instr(uint32_t lane, uint32_t position) const {
    const Lane& of = plan_.lanes[lane];
    return {of.kind, of.index, position, print(plan_, of, of.instrs[position])};
  }
  void add(BlockWord word, uint32_t lane, uint32_t position, ListedBlock& block) const {
    block.lines.push_back({word, instr(lane, position)});
  }
  ListedBlock block_of(const BlockPart& part) const {
    return {plan_.lanes[part.lane].kind, plan_.lanes[part.lane].index, {}};
  }
  void add_end_waits(const BlockPart& part, ListedBlock& block) const {
    for (const Step& wait : part.at_end) add(BlockWord::end_wait, wait.lane, wait.position, block);
  }

  // What plan_tables.cpp makes tasks of.
  ListedBlock gemm_block(const BlockPart& part, bool by_library) const {
    ListedBlock block = block_of(part);
    const std::vector<Instr>& instrs = plan_.lanes[part.lane].instrs;
    TileSum sum;            // of the tile whose task was last
    uint32_t computed = 0;  // one past the tile's last gemm
    for (uint32_t at = part.begin; at < part.end; ++at) {
      const Opcode op = instrs[at].op;
      const FollowedTile* const tile = tiles_of(part).followed_at(part.lane, at);
      const bool goes_on_behind = tile != nullptr && at > tile->made && instrs[at].is_task();
      if (goes_on_behind) {
        const bool multiplies = is_product(op);
        add(multiplies ? BlockWord::beside : BlockWord::follows, part.lane, at, block);
      } else if (is_product(op) && by_library) {
        add(BlockWord::product, part.lane, at, block);
      } else if (is_product(op)) {
        const bool goes_on = at < computed;
        add(goes_on ? BlockWord::goes_on : BlockWord::task, part.lane, at, block);
        if (goes_on) continue;
        const uint32_t last = tiles_of(part).last_of(part.lane, at);
        sum = tiles_of(part).of(part.lane, last);
        computed = last + 1;
      } else if (op == Opcode::wait) {
        // Until its sum is made a tile awaits what it adds from memory once it is computed.
        const bool is_late = at >= computed && at < sum.position && sum.reads_memory();
        add(is_late ? BlockWord::late_wait : BlockWord::wait, part.lane, at, block);
      } else if (is_sum(op)) {
        const bool is_part = sum.stores_before() && at == sum.of_ranks;
        add(is_part ? BlockWord::part : BlockWord::sum, part.lane, at, block);
      } else if (op == Opcode::notify) {
        add(BlockWord::notify, part.lane, at, block);
      }
    }
    add_end_waits(part, block);
    return block;
  }

  ListedBlock mover_block(const BlockPart& part) const {
    ListedBlock block = block_of(part);
    const std::vector<Instr>& instrs = plan_.lanes[part.lane].instrs;
    uint32_t end = part.end;  // of tasks and notifies: waits behind it are its end's
    while (end > part.begin && instrs[end - 1].op == Opcode::wait) --end;
    for (uint32_t at = part.begin; at < part.end; ++at) {
      const Opcode op = instrs[at].op;
      if (rows_normed_at(plan_.lanes[part.lane], at).sum != nullptr) {
        add(BlockWord::move, part.lane, at, block);
        add(BlockWord::move_norm, part.lane, ++at, block);
        continue;
      }
      add(op == Opcode::notify ? BlockWord::notify
          : op != Opcode::wait ? BlockWord::move
          : at < end           ? BlockWord::move_wait
                               : BlockWord::end_wait,
          part.lane, at, block);
    }
    add_end_waits(part, block);
    return block;
  }

  const TileSums& tiles_of(const BlockPart& part) const {
    return *programs_[plan_.lanes[part.lane].rank].sums;
  }

  ListedStep step(int rank, uint32_t stream, const Step& step) const {
    ListedStep listed{stream, word_of(rank, step), step.index, {}};
    const bool has_instr = step.kind == StepKind::wait || step.kind == StepKind::notify ||
                           step.kind == StepKind::copy || step.kind == StepKind::collective ||
                           step.kind == StepKind::route;
    if (has_instr) listed.instr = instr(step.lane, step.position);
    return listed;
  }

  StepWord word_of(int rank, const Step& step) const {
    switch (step.kind) {
      case StepKind::gemm:
        return StepWord::gemm;
      case StepKind::move:
        return StepWord::move;
      case StepKind::wait:
        return signals_.is_relative(rank, signals_.index_of(step.instr(plan_).signal))
                   ? StepWord::wait_value
                   : StepWord::wait_kernel;
      case StepKind::notify:
        return copied_.of(step.lane, step.position) != nullptr ? StepWord::notify_copy
                                                               : StepWord::notify_kernel;
      case StepKind::copy:
        return StepWord::copy;
      case StepKind::collective:
        return programs_[static_cast<size_t>(rank)].receives(step) ? StepWord::receive
                                                                   : StepWord::collective;
      case StepKind::route:
        return StepWord::route;
      case StepKind::record:
        return StepWord::record;
      case StepKind::await:
        break;
    }
    return StepWord::await;
  }

  const Plan& plan_;
  const std::vector<RankProgram>& programs_;
  const SignalLayout signals_;
  const CopiedNotifies copied_;
};

}  // namespace

ProgramListing list_programs(const Plan& plan, const std::vector<RankProgram>& programs) {
  ProgramListing listing{to_string(plan.op), {}};
  const Lister lister(plan, programs);
  for (int rank = 0; rank < plan.ranks(); ++rank) listing.ranks.push_back(lister.list(rank));
  return listing;
}

}  // namespace stretto::cuda
