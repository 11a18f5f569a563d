#include "lower/sequential_run.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "lower/run_memory.h"

namespace stretto {
namespace {

class SequentialRun {
 public:
  explicit SequentialRun(const Draft& draft)
      : draft_(draft), plan_(draft.plan), memory_(draft, faults_) {}

  std::vector<std::string> run() {
    for (const InstrRef ref : draft_.program) {
      if (faults_.are_enough()) break;
      execute(plan_.lanes[ref.lane], plan_.lanes[ref.lane].instrs[ref.pos]);
    }
    if (!parts_.empty()) faults_.add("a collective that not all ranks join");
    if (faults_.empty()) memory_.verify();
    return faults_.list();
  }

 private:
  struct Part {  // of a collective, by rank
    int rank;
    const Instr* instr;
  };

  void execute(const Lane& lane, const Instr& instr) {
    if (instr.op == Opcode::boundary) return;
    if (instr.op == Opcode::collective) return collective(lane, instr);
    for (const Region& region : plan_.reads(instr)) {
      if (region.rank == lane.rank) continue;
      faults_.add("a read of another rank: " + describe(plan_, region));
    }
    std::vector<float> result;
    int64_t cols = 1;
    if (instr.op == Opcode::gemm) {
      result = multiply(instr, cols);
    } else if (instr.op == Opcode::reduce) {
      for (const Region& region : plan_.reads(instr)) {
        std::vector<float> values;
        memory_.load(region, values);
        if (result.empty()) result.resize(values.size(), 0);
        for (size_t i = 0; i < std::min(result.size(), values.size()); ++i) result[i] += values[i];
        cols = region.cols();
      }
    } else {
      for (const Region& region : plan_.reads(instr)) {
        memory_.load(region, result);
        cols = region.cols();
      }
    }
    for (const Placed& placed : placed_writes(plan_, instr)) {
      const auto first = static_cast<size_t>(placed.row * cols);
      const auto count = static_cast<size_t>(placed.region.elements());
      if (first + count > result.size()) return faults_.add("more is written than computed");
      memory_.store(placed.region, std::span(result).subspan(first, count));
    }
  }

  std::vector<float> multiply(const Instr& instr, int64_t& cols) {
    const std::span<const Region> reads = plan_.reads(instr);
    std::vector<float> a, b;
    for (const Region& region : reads.first(reads.size() - 1)) memory_.load(region, a);
    memory_.load(reads.back(), b);
    cols = reads.back().rows();
    const auto k = static_cast<size_t>(reads.back().cols());
    std::vector<float> c;
    c.reserve(a.size() / k * static_cast<size_t>(cols));
    for (size_t row = 0; row + k <= a.size(); row += k) {
      for (size_t col = 0; col + k <= b.size(); col += k) {
        c.push_back(std::inner_product(&a[row], &a[row] + k, &b[col], 0.0f));
      }
    }
    return c;
  }

  void collective(const Lane& lane, const Instr& instr) {
    std::vector<Part>& parts = parts_[instr.id];
    parts.push_back({lane.rank, &instr});
    if (parts.size() < static_cast<size_t>(plan_.ranks())) return;
    const auto ranks = static_cast<size_t>(plan_.ranks());
    std::vector<std::vector<float>> results;  // by rank and written region
    for (const Part& part : parts) {
      const Instr& own = *part.instr;
      for (size_t i = 0; i < own.num_writes; ++i) {
        std::vector<float> sum;
        for (size_t source = 0; source < ranks; ++source) {
          const Instr* from = nullptr;
          for (const Part& p : parts) {
            if (p.rank == static_cast<int>(source)) from = p.instr;
          }
          if (!from) return faults_.add("a rank joins a collective twice");
          const CollectiveForm& form = form_of(own.collective);
          const size_t p = form.parts(own.num_reads, ranks);
          if (form.groups_writes && i / p != source) continue;
          const size_t read = (form.groups_reads ? static_cast<size_t>(part.rank) * p : 0) + i % p;
          std::vector<float> values;
          memory_.load(plan_.reads(*from)[read], values);
          if (sum.empty()) sum.resize(values.size(), 0);
          if (sum.size() != values.size()) return faults_.add("shapes of a collective differ");
          for (size_t e = 0; e < sum.size(); ++e) sum[e] += values[e];
        }
        results.push_back(std::move(sum));
      }
    }
    size_t next = 0;
    for (const Part& part : parts) {
      for (const Region& region : plan_.writes(*part.instr)) memory_.store(region, results[next++]);
    }
    parts_.erase(instr.id);
  }

  const Draft& draft_;
  const Plan& plan_;
  RunFaults faults_;
  RunMemory memory_;
  std::map<int32_t, std::vector<Part>> parts_;
};

}  // namespace

SequentialResult run_sequentially(const Draft& draft) { return {SequentialRun(draft).run()}; }

}  // namespace stretto
