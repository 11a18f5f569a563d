// What a library takes for the products that a plan's gemms make up.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "plan/placed.h"
#include "sim/calibration.h"
#include "sim/costs.h"

namespace stretto::sim {

namespace {

// The gemms of a rank's compute lanes between two boundaries.
struct Product {
  std::map<uint32_t, std::vector<const Instr*>> by_lane;
  std::set<std::tuple<uint16_t, int32_t, int32_t, int32_t, int32_t>> inputs;
  double bytes = 0, macs = 0, most_macs = 0;  // of its inputs; of all lanes, and of one
};

double macs_of(const Plan& plan, const Instr& gemm) {
  return gemm.kind()->flops(plan.reads(gemm), plan.writes(gemm), rows_of_task(plan, gemm)) / 2;
}

}  // namespace

// Its kernels fill the SMs that movers leave whatever the shape is. The lanes share out the time by
// their tiles.
void Costs::find_products() {
  if (!plan_.library_gemms) return;
  std::map<std::pair<uint16_t, size_t>, Product> products;
  std::vector<int> movers(static_cast<size_t>(plan_.ranks()), 0);
  for (uint32_t l = 0; l < plan_.lanes.size(); ++l) {
    const Lane& lane = plan_.lanes[l];
    if (lane.kind == LaneKind::comm && !lane.instrs.empty()) ++movers[lane.rank];
    if (lane.kind != LaneKind::compute) continue;
    size_t boundaries = 0;
    for (const Instr& instr : lane.instrs) {
      if (instr.op == Opcode::boundary) ++boundaries;
      if (instr.op != Opcode::gemm) continue;
      Product& product = products[{lane.rank, boundaries}];
      product.by_lane[l].push_back(&instr);
      for (const Region& read : plan_.reads(instr)) {
        const bool is_new =
            product.inputs.emplace(read.buffer, read.row0, read.row1, read.col0, read.col1).second;
        if (is_new) product.bytes += region_bytes(read);
      }
    }
  }
  for (auto at = products.begin(); at != products.end(); ++at) {
    auto& [place, product] = *at;
    const auto next = std::next(at);
    // A gather's last is beside nobody.
    const bool is_last = next == products.end() || next->first.first != place.first;
    const bool is_alone = is_last && !plan_.op.ends_with_terms();
    const double sms = machine_.sms - (is_alone ? 0 : movers[place.first]);
    for (const auto& [lane, gemms] : product.by_lane) {
      double macs = 0;
      for (const Instr* gemm : gemms) macs += macs_of(plan_, *gemm);
      product.macs += macs;
      product.most_macs = std::max(product.most_macs, macs);
    }
    const bool is_fp32 = plan_.op.dtype == DType::fp32;
    const double tflops = is_fp32 ? machine_.fp32_tflops : machine_.gemm_tflops;
    const double multiply_us =
        2 * product.macs / (kLibraryRate * tflops * 1e6 * sms / machine_.sms) / power_[place.first];
    const double read_us = move_us(product.bytes, machine_.hbm_gb_per_s);
    const double us = kLibraryStartUs + std::max(multiply_us, read_us);
    for (const auto& [lane, gemms] : product.by_lane) {
      for (const Instr* gemm : gemms) {
        library_us_[gemm] = us * macs_of(plan_, *gemm) / product.most_macs;
      }
    }
  }
}

}  // namespace stretto::sim
