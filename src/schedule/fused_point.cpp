#include "schedule/fused_point.h"

#include <algorithm>
#include <cmath>

#include "core/ceil_div.h"

namespace stretto {
namespace {

constexpr int kRows = 128;
constexpr int kWidths[] = {256, 224, 192, 160, 128, 96, 64};
constexpr int kMostCommSms = 16;
constexpr double kClearlyBetter = 0.995;

class FusedCosts {
 public:
  FusedCosts(const Segment& op, const Machine& machine)
      : op_(op),
        machine_(machine),
        tflops_(op.dtype == DType::fp32 ? machine.fp32_tflops : machine.gemm_tflops),
        share_(static_cast<double>(op.ranks - 1) / op.ranks) {}

  bool known() const {
    return tflops_ > 0 && machine_.link_gb_per_s > 0 && op_.row_shards().block() >= kRows &&
           op_.product_cols() >= kWidths[0];
  }

  double time_us(int width, int comm_sms) const {
    const int64_t tiles = ceil_div(op_.local_m(), kRows) * ceil_div(op_.product_cols(), width);
    const int sms = machine_.sms - comm_sms;
    const double tile = tile_us(width), gemm = static_cast<double>(ceil_div(tiles, sms)) * tile;
    if (!op_.sends_tiles()) return std::max(gemm, send_us(rate(comm_sms), sent_bytes()) + tile);
    const double last =
        static_cast<double>(std::min<int64_t>(tiles, sms)) * kRows * width * element() * factor();
    const double link = machine_.link_gb_per_s;
    return std::max(gemm + send_us(link, last), send_us(link, sent_bytes()) + tile);
  }

 private:
  double element() const { return static_cast<double>(num_bytes(op_.dtype)); }
  // Bytes that leave a GPU for each byte of its tiles.
  double factor() const { return op_.adds_for_all() ? 2 * share_ : share_; }
  double sent_bytes() const {
    const double elements = op_.sends_tiles()
                                ? static_cast<double>(op_.m) * static_cast<double>(op_.n)
                                : static_cast<double>(op_.m) * static_cast<double>(op_.k);
    return elements * element() * factor();
  }
  double rate(int comm_sms) const {
    return (op_.ranks == 2 ? machine_.push_by_blocks : machine_.push_multi_by_blocks).at(comm_sms);
  }
  static double send_us(double gb_per_s, double bytes) { return bytes / (gb_per_s * 1e3); }

  // Narrow tiles ask more of shared memory than its 128 bytes a cycle: wgmma reads B once and A
  // for every tile, TMA writes both. Where the clock is held down by power half of that shows.
  double tile_us(int width) const {
    const double bytes = 64 + 4096.0 / width + 4096.0 / kRows + 4096.0 / width;
    const double flop = 2.0 * kRows * width * static_cast<double>(op_.local_k());
    return flop * machine_.sms / (tflops_ * 1e6) * std::max(1.0, std::sqrt(bytes / 128)) +
           machine_.tile_overhead_us;
  }

  const Segment& op_;
  const Machine& machine_;
  double tflops_, share_;
};

}  // namespace

FusedPoint fused_point(const Segment& op, const Machine& machine, int usual_comm_sms) {
  const int most = std::max(0, machine.sms - 1);
  const bool gathers = problems(op).empty() && !op.sends_tiles();
  FusedPoint point;
  point.comm_sms = gathers ? std::clamp(usual_comm_sms, 0, most) : 0;
  point.tile = default_tile(op, machine.sms - point.comm_sms);
  if (!problems(op).empty() || op.ranks == 1) return point;
  const FusedCosts costs(op, machine);
  if (!costs.known()) return point;

  const int first = gathers ? std::min(1, most) : 0,
            last = gathers ? std::min(kMostCommSms, most) : 0;
  double best = 0;
  for (const int width : kWidths) {
    for (int comm_sms = last; comm_sms >= first; --comm_sms) {
      const double time = costs.time_us(width, comm_sms);
      if (best > 0 && time >= best * kClearlyBetter) continue;
      best = time;
      point = {{kRows, width}, comm_sms};
    }
  }
  return point;
}

}  // namespace stretto
