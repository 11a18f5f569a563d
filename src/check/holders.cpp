#include "check/holders.h"

#include <utility>

#include "plan/tile_rows.h"
#include "plan/tile_task.h"

namespace stretto::checker {
namespace {

class HolderFinder {
 public:
  HolderFinder(const Plan& plan, uint32_t index, Holders& holders)
      : plan_(plan), lane_(index), holders_(holders) {}

  void find(const Lane& lane) {
    for (uint32_t pos = 0; pos < lane.instrs.size(); ++pos) {
      const Instr& instr = lane.instrs[pos];
      if (instr.op == Opcode::wait) {
        if (instr.lag == 0) open_.push_back(pos);
      } else if (instr.op == Opcode::boundary) {
        end_kernel(lane, pos);
      } else if (instr.op != Opcode::deliver) {
        const bool in_gemm = tasks_.pass(instr);
        hold(in_gemm);
        if (in_gemm) end_of_tiles_ = pos + 1;
      }
    }
    if (lane.kind == LaneKind::compute) {
      return end_kernel(lane, static_cast<uint32_t>(lane.instrs.size()));
    }
    hold(false);
    if (!all_.empty()) holders_.comm.push_back({lane_, std::move(all_)});
  }

 private:
  static void append(std::vector<uint32_t>& to, const std::vector<uint32_t>& waits) {
    to.insert(to.end(), waits.begin(), waits.end());
  }
  void hold(bool in_gemm) {
    append(all_, open_);
    append(moving_, open_);
    open_.clear();
    if (!in_gemm) return;
    append(in_gemm_, moving_);
    moving_.clear();
  }
  void end_kernel(const Lane& lane, uint32_t end) {
    // Rows behind tiles may be their kernel's too.
    if (end_of_tiles_ > begin_ && are_rows_of_tiles(plan_, lane, end_of_tiles_, end)) {
      append(in_gemm_, moving_);
    }
    begin_ = end_of_tiles_ = end + 1;
    add(holders_.compute, all_);
    add(holders_.in_gemm, in_gemm_);
    ++kernel_;
    open_.clear();
    moving_.clear();
    tasks_ = {};
  }
  void add(std::vector<std::vector<Holder>>& by_kernel, std::vector<uint32_t>& waits) const {
    if (by_kernel.size() <= kernel_) by_kernel.resize(kernel_ + 1);
    if (!waits.empty()) by_kernel[kernel_].push_back({lane_, std::move(waits)});
    waits.clear();
  }

  const Plan& plan_;
  uint32_t lane_;
  Holders& holders_;
  uint32_t begin_ = 0, end_of_tiles_ = 0;  // of the lane's part of a kernel, and of its tiles
  size_t kernel_ = 0;
  std::vector<uint32_t> all_, in_gemm_;
  std::vector<uint32_t> open_;    // since the last task or notify
  std::vector<uint32_t> moving_;  // since the last gemm
  InGemm tasks_;
};

}  // namespace

void add_holders(const Plan& plan, uint32_t lane, Holders& holders) {
  HolderFinder(plan, lane, holders).find(plan.lanes[lane]);
}

}  // namespace stretto::checker
