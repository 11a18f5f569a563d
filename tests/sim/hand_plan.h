// Plans built by hand and a machine of round figures, so that times can be worked out on paper.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "stretto/machine.h"
#include "stretto/plan.h"

namespace stretto::testing_sim {

// A 128 x 256 tile over K = 1024 takes 10 us; a GB/s is a thousand bytes a microsecond.
inline Machine round_machine() {
  Machine machine;
  machine.name = "round";
  machine.sms = 8;
  machine.gemm_tflops = 8 * 2 * 128.0 * 256 * 1024 / 10 / 1e6;
  machine.fp32_tflops = machine.gemm_tflops / 10;
  machine.hbm_gb_per_s = 1000;
  machine.block_hbm_gb_per_s = 400;
  machine.link_gb_per_s = 100;
  machine.push_by_blocks.points = {{1, 20}, {8, 160}};
  machine.push_all_by_blocks.points = {{1, 20}, {2, 40}, {4, 80}, {8, 80}};
  machine.push_multi_by_blocks.points = {{1, 40}};
  machine.copy_engine_by_bytes.points = {{1e6, 80}};
  machine.copy_engine_all_gb_per_s = 50;
  machine.epilogue_push_gb_per_s = 10;
  machine.nccl_by_bytes.points = {{1, 50}};
  machine.nccl_sms = 2;
  return machine;
}

inline constexpr int kTileM = 128, kTileN = 256, kDepth = 1024;

class HandPlan {
 public:
  explicit HandPlan(int ranks) {
    plan_.op =
        Segment{kGemmRs, int64_t{kTileM} * 64, kTileN, int64_t{kDepth} * ranks, ranks, DType::bf16};
    plan_.schedule = "by hand";
    plan_.sms = 8;
    a_ = buffer("a", BufferRole::input, kTileM * 64, kDepth);
    b_ = buffer("b", BufferRole::input, kTileN, kDepth);
    part_ = buffer("part", BufferRole::local, kTileM * 64, kTileN);
    slots_ = buffer("slots", BufferRole::symmetric, kTileM * 64, kTileN);
  }

  uint16_t buffer(const std::string& name, BufferRole role, int rows, int cols) {
    plan_.buffers.push_back({name, DType::bf16, role, rows, cols, 0, 1});
    return static_cast<uint16_t>(plan_.buffers.size() - 1);
  }
  void signals(const std::string& name, int count) { plan_.signals.push_back({name, count, 1}); }

  // Lanes must be added in the order rank, kind, index.
  int lane(int rank, LaneKind kind) {
    int index = 0;
    for (const Lane& lane : plan_.lanes) index += lane.rank == rank && lane.kind == kind;
    plan_.lanes.push_back({kind, static_cast<uint16_t>(rank), static_cast<uint16_t>(index), {}});
    return static_cast<int>(plan_.lanes.size()) - 1;
  }

  Region slots(int rank, int tile, int tiles = 1) const { return rows(slots_, rank, tile, tiles); }
  Region part(int rank, int tile, int tiles = 1) const { return rows(part_, rank, tile, tiles); }

  Instr& task(int lane, Opcode op, std::vector<Region> reads, std::vector<Region> writes) {
    Instr instr;
    instr.op = op;
    instr.first_operand = static_cast<uint32_t>(plan_.operands.size());
    instr.num_reads = static_cast<uint16_t>(reads.size());
    instr.num_writes = static_cast<uint16_t>(writes.size());
    plan_.operands.insert(plan_.operands.end(), reads.begin(), reads.end());
    plan_.operands.insert(plan_.operands.end(), writes.begin(), writes.end());
    auto& instrs = plan_.lanes[static_cast<size_t>(lane)].instrs;
    instrs.push_back(instr);
    return instrs.back();
  }
  // One 10 us tile, into its rank's own memory or wherever `to` says.
  void gemm(int lane, int tile, std::vector<Region> to = {}) {
    const uint16_t rank = plan_.lanes[static_cast<size_t>(lane)].rank;
    if (to.empty()) to.push_back(part(rank, tile));
    const Region b{0, kTileN, 0, kDepth, b_, rank};
    Region a = rows(a_, rank, tile, 1);
    a.col1 = kDepth;
    task(lane, Opcode::gemm, {a, b}, std::move(to)).tile = tile;
  }
  void copy(int lane, Region from, std::vector<Region> to) {
    task(lane, Opcode::copy, {from}, std::move(to)).tile = 0;
  }
  void wait(int lane, int signal, int64_t amount, int lag = 0) {
    Instr instr;
    instr.op = Opcode::wait;
    instr.signal = {0, signal};
    instr.amount = amount;
    instr.lag = static_cast<uint8_t>(lag);
    plan_.lanes[static_cast<size_t>(lane)].instrs.push_back(instr);
  }
  void notify(int lane, int signal, int rank) {
    Instr instr;
    instr.op = Opcode::notify;
    instr.signal = {0, signal};
    instr.rank = static_cast<uint16_t>(rank);
    instr.amount = 1;
    plan_.lanes[static_cast<size_t>(lane)].instrs.push_back(instr);
  }
  void boundary(int lane, int id) {
    Instr instr;
    instr.op = Opcode::boundary;
    instr.id = id;
    plan_.lanes[static_cast<size_t>(lane)].instrs.push_back(instr);
  }
  void all_reduce(int lane, int id, int tiles) {
    const int rank = plan_.lanes[static_cast<size_t>(lane)].rank;
    Instr& instr = task(lane, Opcode::collective, {part(rank, 0, tiles)}, {slots(rank, 0, tiles)});
    instr.collective = CollectiveKind::all_reduce;
    instr.id = id;
  }

  Plan plan() const {
    Plan plan = plan_;
    fuse_tasks(plan);
    return plan;
  }

 private:
  Region rows(uint16_t buffer, int rank, int tile, int tiles) const {
    return {tile * kTileM, (tile + tiles) * kTileM, 0, kTileN, buffer, static_cast<uint16_t>(rank)};
  }

  Plan plan_;
  uint16_t a_, b_, part_, slots_;
};

inline constexpr double kTileBytes = 2.0 * kTileM * kTileN;  // 65536

}  // namespace stretto::testing_sim
