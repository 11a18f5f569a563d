#include "measure/row_check.h"

#include <algorithm>

#include "emu/output_check.h"
#include "emu/random.h"

namespace stretto::runtime {
namespace {

constexpr int64_t kRowsAtATime = 256;
constexpr int64_t kSampledRows = 16;  // of one block

std::vector<std::pair<int64_t, int64_t>> blocks_of(const Operator& op, double most) {
  const int64_t rows = rows_to_expect(op);
  const double row_cost = flops_per_rank(op) / 2 * op.ranks / static_cast<double>(rows);
  std::vector<std::pair<int64_t, int64_t>> blocks;
  if (row_cost * static_cast<double>(rows) <= most) {
    for (int64_t row = 0; row < rows; row += kRowsAtATime) {
      blocks.emplace_back(row, std::min(rows, row + kRowsAtATime));
    }
    return blocks;
  }
  constexpr int64_t kFewestBlocks = 4;
  const auto affordable = static_cast<int64_t>(most / row_cost / kSampledRows);
  const int64_t last = std::max<int64_t>(0, rows - kSampledRows);
  emu::Random random(1);
  for (int64_t i = 0; i < std::max(affordable, kFewestBlocks); ++i) {
    const int64_t row = i == 0 ? 0
                        : i == 1
                            ? last
                            : static_cast<int64_t>(random.below(static_cast<uint64_t>(last + 1)));
    blocks.emplace_back(row, std::min(rows, row + kSampledRows));
  }
  return blocks;
}

}  // namespace

// Inputs are asked for once; what runs of several plans are compared with is kept.
RowCheck::RowCheck(const Operator& op, const InputData& data, double most)
    : op_(op),
      data_(data),
      blocks_(blocks_of(op, most)),
      inputs_(make_shared_reference(0)),
      reference_(make_shared_reference(int64_t{1} << 30)) {}

RowCheck::Found RowCheck::compare(const Plan& plan, int first_rank, const Outputs& outputs) {
  emu::OutputCheck check(plan);
  const Roundings roundings = emu::roundings_of(plan);
  for (const auto& [row0, row1] : blocks_) {
    const auto expected = reference_->expected(op_, data_, roundings, row0, row1);
    for (size_t output = 0; output < expected->size(); ++output) {
      for (size_t i = 0; i < outputs[output].size(); ++i) {
        check.compare(0, first_rank + static_cast<int>(i), output, outputs[output][i].data(),
                      (*expected)[output]);
      }
    }
  }
  check.conclude();
  return {check.wrong_elements, check.worst_error, check.first_wrong, check.is_judged};
}

}  // namespace stretto::runtime
