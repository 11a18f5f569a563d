#include "lower/sequential_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <span>

namespace stretto {
namespace {

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kMaxFaults = 5;

// Global inputs: small integers that hang on matrix, row and column.
float input_at(int matrix, int64_t row, int64_t col) {
  uint64_t h = static_cast<uint64_t>(row) * 0x9E3779B97F4A7C15u +
               static_cast<uint64_t>(col) * 0xC2B2AE3D27D4EB4Fu + static_cast<uint64_t>(matrix);
  h = (h ^ (h >> 29)) * 0xBF58476D1CE4E5B9u;
  return static_cast<float>(static_cast<int>((h >> 33) % 5) - 2);
}

struct Instance {
  int64_t rows = 0, cols = 0;
  std::vector<float> values;
  std::vector<uint8_t> writes;
};

class SequentialRun {
 public:
  explicit SequentialRun(const Draft& draft) : draft_(draft), plan_(draft.plan), op_(draft.op) {
    for (const Buffer& buffer : plan_.buffers) {
      for (int rank = 0; rank < plan_.ranks(); ++rank) {
        Instance& m = memory_.emplace_back();
        m.rows = buffer.rows_on(rank);
        m.cols = buffer.cols;
        m.values.assign(static_cast<size_t>(m.rows * m.cols), kPoison);
        m.writes.assign(m.values.size(), 0);
        if (buffer.role == BufferRole::input) fill_input(m, buffer.name, rank);
      }
    }
  }

  std::vector<std::string> run() {
    for (at_ = 0; at_ < draft_.program.size() && faults_.size() < kMaxFaults; ++at_) {
      const InstrRef ref = draft_.program[at_];
      execute(plan_.lanes[ref.lane], plan_.lanes[ref.lane].instrs[ref.pos]);
    }
    if (!parts_.empty()) fault("a collective that not all ranks join");
    if (faults_.empty()) verify();
    return std::move(faults_);
  }

 private:
  struct Part {  // of a collective, by rank
    int rank;
    const Instr* instr;
  };

  void fault(const std::string& what) {
    if (faults_.size() < kMaxFaults) faults_.push_back(what);
  }

  void fill_input(Instance& m, const std::string& name, int rank) {
    const bool is_a = name == "a", gather = op_.kind == OpKind::ag_gemm;
    const int64_t row0 = gather ? (is_a ? op_.row_shards().begin(rank) : rank * op_.local_n()) : 0;
    const int64_t col0 = gather ? 0 : rank * op_.local_k();
    for (int64_t r = 0; r < m.rows; ++r) {
      for (int64_t c = 0; c < m.cols; ++c) {
        m.values[static_cast<size_t>(r * m.cols + c)] = input_at(is_a ? 1 : 2, row0 + r, col0 + c);
      }
    }
  }

  Instance& memory(const Region& region) {
    return memory_[static_cast<size_t>(region.buffer) * static_cast<size_t>(plan_.ranks()) +
                   region.rank];
  }

  bool inside(const Region& region) {
    const Instance& m = memory(region);
    const bool good =
        region.row0 >= 0 && region.col0 >= 0 && region.row1 <= m.rows && region.col1 <= m.cols;
    if (!good) fault(describe(plan_, region) + " is outside its buffer");
    return good;
  }

  // Row-major contents; appended to `values`.
  void load(const Region& region, std::vector<float>& values) {
    if (region.empty() || !inside(region)) return;
    const Instance& m = memory(region);
    const size_t first = values.size();
    for (int64_t r = region.row0; r < region.row1; ++r) {
      const auto row = m.values.begin() + (r * m.cols + region.col0);
      values.insert(values.end(), row, row + region.cols());
    }
    if (std::any_of(values.begin() + static_cast<std::ptrdiff_t>(first), values.end(),
                    [](float value) { return std::isnan(value); })) {
      fault("poison in " + describe(plan_, region));
    }
  }

  void store(const Region& region, std::span<const float> values) {
    if (region.empty() || !inside(region)) return;
    if (values.size() != static_cast<size_t>(region.elements())) return fault("shapes differ");
    Instance& m = memory(region);
    size_t i = 0;
    for (int64_t r = region.row0; r < region.row1; ++r) {
      for (int64_t c = region.col0; c < region.col1; ++c) {
        const auto to = static_cast<size_t>(r * m.cols + c);
        m.values[to] = values[i++];
        if (m.writes[to] < UINT8_MAX) ++m.writes[to];
      }
    }
  }

  void execute(const Lane& lane, const Instr& instr) {
    if (instr.op == Opcode::boundary) return;
    if (instr.op == Opcode::collective) return collective(lane, instr);
    for (const Region& region : plan_.reads(instr)) {
      if (region.rank != lane.rank) fault("a read of another rank: " + describe(plan_, region));
    }
    std::vector<float> result;
    int64_t cols = 1;
    if (instr.op == Opcode::gemm) {
      result = multiply(instr, cols);
    } else if (instr.op == Opcode::reduce) {
      for (const Region& region : plan_.reads(instr)) {
        std::vector<float> values;
        load(region, values);
        if (result.empty()) result.resize(values.size(), 0);
        for (size_t i = 0; i < std::min(result.size(), values.size()); ++i) result[i] += values[i];
        cols = region.cols();
      }
    } else {
      for (const Region& region : plan_.reads(instr)) {
        load(region, result);
        cols = region.cols();
      }
    }
    for (const Placed& placed : placed_writes(plan_, instr)) {
      const auto first = static_cast<size_t>(placed.row * cols);
      const auto count = static_cast<size_t>(placed.region.elements());
      if (first + count > result.size()) return fault("more is written than computed");
      store(placed.region, std::span(result).subspan(first, count));
    }
  }

  std::vector<float> multiply(const Instr& instr, int64_t& cols) {
    const std::span<const Region> reads = plan_.reads(instr);
    std::vector<float> a, b;
    for (const Region& region : reads.first(reads.size() - 1)) load(region, a);
    load(reads.back(), b);
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
          if (!from) return fault("a rank joins a collective twice");
          const size_t p =
              own.num_writes / (own.collective == CollectiveKind::all_gather ? ranks : 1);
          if (own.collective == CollectiveKind::all_gather && i / p != source) continue;
          const size_t read = own.collective == CollectiveKind::all_gather ? i % p
                              : own.collective == CollectiveKind::reduce_scatter
                                  ? static_cast<size_t>(part.rank) * p + i
                                  : i;
          std::vector<float> values;
          load(plan_.reads(*from)[read], values);
          if (sum.empty()) sum.resize(values.size(), 0);
          if (sum.size() != values.size()) return fault("shapes of a collective differ");
          for (size_t e = 0; e < sum.size(); ++e) sum[e] += values[e];
        }
        results.push_back(std::move(sum));
      }
    }
    size_t next = 0;
    for (const Part& part : parts) {
      for (const Region& region : plan_.writes(*part.instr)) store(region, results[next++]);
    }
    parts_.erase(instr.id);
  }

  void verify() {
    // out = A * B^T, element by element from the global inputs.
    const bool gather = op_.kind == OpKind::ag_gemm;
    std::vector<float> a, b, expected;
    for (int64_t r = 0; r < op_.m; ++r) {
      for (int64_t i = 0; i < op_.k; ++i) a.push_back(input_at(1, r, i));
    }
    for (int64_t c = 0; c < op_.n; ++c) {
      for (int64_t i = 0; i < op_.k; ++i) b.push_back(input_at(2, c, i));
    }
    for (int64_t r = 0; r < op_.m; ++r) {
      for (int64_t c = 0; c < op_.n; ++c) {
        float sum = 0;
        for (int64_t i = 0; i < op_.k; ++i) {
          sum += a[static_cast<size_t>(r * op_.k + i)] * b[static_cast<size_t>(c * op_.k + i)];
        }
        expected.push_back(sum);
      }
    }
    const uint16_t out = plan_.find_buffer("out").value();
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      const Instance& m = memory({0, 0, 0, 0, out, static_cast<uint16_t>(rank)});
      const int64_t row0 = op_.kind == OpKind::gemm_rs ? op_.row_shards().begin(rank) : 0;
      const int64_t col0 = gather ? rank * op_.local_n() : 0;
      const int64_t rows = op_.kind == OpKind::gemm_rs ? op_.row_shards().size(rank) : op_.m;
      if (m.rows != rows || m.cols != op_.local_n()) fault("out has a wrong shape");
      for (int64_t r = 0; r < m.rows && faults_.empty(); ++r) {
        for (int64_t c = 0; c < m.cols && faults_.empty(); ++c) {
          const auto i = static_cast<size_t>(r * m.cols + c);
          const float right = expected[static_cast<size_t>((row0 + r) * op_.n + col0 + c)];
          if (m.writes[i] == 1 && m.values[i] == right) continue;
          fault("rank " + std::to_string(rank) + " out[" + std::to_string(r) + "," +
                std::to_string(c) + "] is " + std::to_string(m.values[i]) + " for " +
                std::to_string(right) + ", written " + std::to_string(m.writes[i]) + " times");
        }
      }
    }
  }

  const Draft& draft_;
  const Plan& plan_;
  const Operator& op_;
  std::vector<Instance> memory_;  // by buffer and rank
  std::map<int32_t, std::vector<Part>> parts_;
  std::vector<std::string> faults_;
  size_t at_ = 0;
};

}  // namespace

SequentialResult run_sequentially(const Draft& draft) { return {SequentialRun(draft).run()}; }

}  // namespace stretto
