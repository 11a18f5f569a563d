#include "check/random_plans.h"

#include <fmt/format.h>

#include <vector>

#include "stretto/lower.h"

namespace stretto {
namespace {

constexpr int kPlaces = 2;  // rows of each buffer

class RandomDraft {
 public:
  explicit RandomDraft(Random& random) : random_(random), draft_(empty(random)) {
    const int ranks = draft_.plan.ranks();
    declare("x", BufferRole::input, 1);
    declare("part", BufferRole::local, 1);
    declare("slots", BufferRole::symmetric, 1 + pick(random, 2));
    declare("out", BufferRole::output, 1);
    written_.resize(draft_.plan.buffers.size() * static_cast<size_t>(ranks * kPlaces));
    for (int rank = 0; rank < ranks; ++rank) {
      const bool third = ranks == 2 && pick(random, 2) == 0;
      lane(LaneKind::compute, rank, 0);
      lane(third ? LaneKind::compute : LaneKind::copy, rank, third ? 1 : 0);
      if (with_collectives()) lane(LaneKind::nccl, rank, 0);
    }
  }

  Plan make() {
    const int tasks = 5 + pick(random_, 5);
    for (int i = 0; i < tasks; ++i) {
      if (with_collectives() && pick(random_, 5) == 0) {
        all_reduce(i);
      } else if (pick(random_, 8) == 0) {
        boundary(i);
      } else {
        copy();
      }
    }
    place_signals(draft_);
    return std::move(draft_.plan);
  }

 private:
  enum Buffers : uint16_t { kX, kPart, kSlots, kOut };

  static Draft empty(Random& random) {
    Schedule schedule;
    schedule.sync = pick(random, 2) == 0 ? Sync::flag : Sync::counter;
    const Segment op{kGemmRs, 6, 6, 6, 2 + pick(random, 2), DType::fp32};
    Draft draft{op, schedule, Machine{}, {}, {}, {}};
    draft.plan.op = op;
    draft.plan.sms = 16;
    return draft;
  }

  bool with_collectives() const { return draft_.schedule.first().sync == Sync::flag; }

  void declare(const std::string& name, BufferRole role, int copies) {
    draft_.plan.buffers.push_back(
        {name, DType::fp32, role, kPlaces, 1, 0, static_cast<uint8_t>(copies)});
  }
  void lane(LaneKind kind, int rank, int index) {
    draft_.plan.lanes.push_back(
        {kind, static_cast<uint16_t>(rank), static_cast<uint16_t>(index), {}});
  }

  std::vector<bool>::reference written(const Region& r) {
    return written_[static_cast<size_t>((r.buffer * draft_.plan.ranks() + r.rank) * kPlaces +
                                        r.row0)];
  }
  Region place(uint16_t buffer, int rank) {
    const int row = pick(random_, kPlaces);
    return {row, row + 1, 0, 1, buffer, static_cast<uint16_t>(rank)};
  }
  // Something that can be read on the rank.
  Region source(int rank) {
    for (int tries = 0; tries < 4; ++tries) {
      const Region guess = place(static_cast<uint16_t>(1 + pick(random_, 3)), rank);
      if (written(guess)) return guess;
    }
    return place(kX, rank);
  }

  void copy() {
    uint32_t lane = 0;
    do {
      lane = static_cast<uint32_t>(pick(random_, static_cast<int>(draft_.plan.lanes.size())));
    } while (draft_.plan.lanes[lane].kind == LaneKind::nccl);
    const int rank = draft_.plan.lanes[lane].rank;
    const Region from = source(rank);
    Region to = place(static_cast<uint16_t>(1 + pick(random_, 3)), rank);
    if (pick(random_, 2) == 0) to.buffer = kSlots;
    if (to.buffer == kSlots) to.rank = static_cast<uint16_t>(pick(random_, draft_.plan.ranks()));
    if (to == from) to.row0 = kPlaces - 1 - to.row0, to.row1 = to.row0 + 1;
    emit(lane, Opcode::copy, {from}, {to});
  }

  void all_reduce(int id) {
    const int row = pick(random_, kPlaces);
    team_ = pick(random_, 4) == 0 ? 1 : 0;  // each rank by itself
    for (uint32_t lane = 0; lane < draft_.plan.lanes.size(); ++lane) {
      if (draft_.plan.lanes[lane].kind != LaneKind::nccl) continue;
      const Region from = source(draft_.plan.lanes[lane].rank);
      Region to = place(kPart, from.rank);
      to.row0 = row, to.row1 = row + 1;
      emit(lane, Opcode::collective, {from}, {to}, id);
    }
  }

  void boundary(int id) {
    const int rank = pick(random_, draft_.plan.ranks());
    for (uint32_t lane = 0; lane < draft_.plan.lanes.size(); ++lane) {
      const Lane& l = draft_.plan.lanes[lane];
      if (l.rank == rank && l.kind == LaneKind::compute) emit(lane, Opcode::boundary, {}, {}, id);
    }
  }

  void emit(uint32_t lane, Opcode op, const std::vector<Region>& reads,
            const std::vector<Region>& writes, int id = 0) {
    Instr instr;
    instr.op = op;
    instr.id = id;
    instr.collective = CollectiveKind::all_reduce;
    if (op == Opcode::collective) instr.team = team_;
    instr.first_operand = static_cast<uint32_t>(draft_.plan.operands.size());
    instr.num_reads = static_cast<uint16_t>(reads.size());
    instr.num_writes = static_cast<uint16_t>(writes.size());
    for (const Region& r : reads) draft_.plan.operands.push_back(r);
    for (const Region& r : writes) {
      draft_.plan.operands.push_back(r);
      written(r) = true;
    }
    std::vector<Instr>& instrs = draft_.plan.lanes[lane].instrs;
    draft_.program.push_back({lane, static_cast<uint32_t>(instrs.size())});
    instrs.push_back(instr);
  }

  Random& random_;
  Draft draft_;
  uint16_t team_ = 0;  // of the next collective
  std::vector<bool> written_;
};

}  // namespace

Plan random_plan(Random& random) { return RandomDraft(random).make(); }

std::string change(Plan& plan, Random& random) {
  std::vector<InstrRef> all, syncs;
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (uint32_t pos = 0; pos < plan.lanes[lane].instrs.size(); ++pos) {
      all.push_back({lane, pos});
      if (plan.lanes[lane].instrs[pos].is_sync()) syncs.push_back({lane, pos});
    }
  }
  if (syncs.empty()) return "nothing";
  const InstrRef at = syncs[static_cast<size_t>(pick(random, static_cast<int>(syncs.size())))];
  std::vector<Instr>& instrs = plan.lanes[at.lane].instrs;
  Instr& instr = instrs[at.pos];
  SignalArray& array = plan.signals[instr.signal.array];
  const std::string where = fmt::format("{} instruction {}", describe(plan.lanes[at.lane]), at.pos);
  switch (pick(random, 7)) {
    case 0:
      instrs.erase(instrs.begin() + at.pos);
      return where + " deleted";
    case 1:
      if (instr.amount > 1) --instr.amount;
      return where + " lowered";
    case 2:
      ++instr.amount;
      return where + " raised";
    case 3:
      instr.signal.index = pick(random, array.count);
      return where + " given another signal";
    case 4:
      array.copies = static_cast<uint8_t>(1 + pick(random, 2));
      return array.name + " given other copies";
    case 5:
      if (instr.op == Opcode::wait) instr.lag = static_cast<uint8_t>(pick(random, 3));
      return where + " given another lag";
    default: {
      const InstrRef ref = all[static_cast<size_t>(pick(random, static_cast<int>(all.size())))];
      std::vector<Instr>& lane = plan.lanes[ref.lane].instrs;
      if (ref.pos + 1 < lane.size()) std::swap(lane[ref.pos], lane[ref.pos + 1]);
      return fmt::format("{} instructions {} and {} swapped", describe(plan.lanes[ref.lane]),
                         ref.pos, ref.pos + 1);
    }
  }
}

}  // namespace stretto
