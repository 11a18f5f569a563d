#include "sim/input_traffic.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "stretto/machine.h"

namespace stretto::sim {
namespace {

// Rows of an input, and where in K the tile begins.
using Stripe = std::tuple<uint16_t, int64_t, int64_t, int64_t>;

Stripe stripe_of(const Region& read) { return {read.buffer, read.row0, read.row1, read.col0}; }

// The first task of each tile of each lane of a rank.
std::vector<std::vector<const Instr*>> tiles_by_lane(const Plan& plan, int rank) {
  std::vector<std::vector<const Instr*>> found;
  for (const Lane& lane : plan.lanes) {
    if (lane.rank != rank || lane.kind != LaneKind::compute) continue;
    std::vector<const Instr*>& tiles = found.emplace_back();
    for (const Instr& instr : lane.instrs) {
      const bool goes_on = !tiles.empty() && tiles.back()->tile == instr.tile;
      if (instr.op == Opcode::gemm && !goes_on) tiles.push_back(&instr);
    }
  }
  return found;
}

class Reader {
 public:
  // What a wave reads, each stripe once, in bytes.
  void read(const std::map<Stripe, double>& wave) {
    double all = 0;
    for (const auto& [stripe, bytes] : wave) all += bytes;
    for (const auto& [stripe, bytes] : wave) {
      const auto before = last_.find(stripe);
      // From one wave's reading to the next wave's all that either reads passes by.
      const bool is_held = before != last_.end() && read_ + all - before->second <= kL2Bytes / 2;
      if (!is_held) from_memory_ += bytes;
    }
    for (const auto& [stripe, bytes] : wave) last_[stripe] = read_;
    read_ += all;
  }
  double from_memory() const { return from_memory_; }

 private:
  std::map<Stripe, double> last_;  // how much had been read when its wave began
  double read_ = 0, from_memory_ = 0;
};

}  // namespace

std::vector<double> bytes_from_memory(const Plan& plan,
                                      const std::function<int(const Instr&)>& k_of) {
  std::vector<double> by_rank;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const auto lanes = tiles_by_lane(plan, rank);
    size_t waves = 0;
    for (const auto& tiles : lanes) waves = std::max(waves, tiles.size());
    Reader reader;
    for (size_t w = 0; w < waves; ++w) {
      std::map<Stripe, double> wave;
      for (const auto& tiles : lanes) {
        if (w >= tiles.size()) continue;
        for (const Region& read : plan.reads(*tiles[w])) {
          const int64_t size = num_bytes(plan.buffers[read.buffer].dtype);
          wave[stripe_of(read)] = static_cast<double>(read.rows() * k_of(*tiles[w]) * size);
        }
      }
      reader.read(wave);
    }
    by_rank.push_back(reader.from_memory());
  }
  return by_rank;
}

}  // namespace stretto::sim
