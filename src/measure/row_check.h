// Results of plans whose rows choose experts, judged by the reference of some of their rows: what a
// GPU would make of all of them it could not say without choosing, too.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emu/shared_reference.h"
#include "stretto/plan.h"

namespace stretto::runtime {

class RowCheck {
 public:
  // `most`: multiply-adds that the reference of a run may cost; beyond them blocks of rows are
  // compared, the first, the last and some at random.
  RowCheck(const Operator& op, const InputData& data, double most = 2e9);

  // What a rank has of an input.
  SharedReference::Bytes input(int tensor, int rank) {
    return inputs_->input(op_, data_, tensor, rank);
  }
  const std::vector<std::pair<int64_t, int64_t>>& blocks() const { return blocks_; }

  struct Found {
    int64_t wrong_elements = 0;
    double worst_error = 0;  // of what a right result may differ by
    std::string first_wrong;
    bool is_judged = true;

    bool is_right() const { return wrong_elements == 0 && is_judged; }
  };
  // Of one run: by output and rank of this process, from `first_rank` on, what they hold.
  using Outputs = std::vector<std::vector<std::vector<std::byte>>>;
  Found compare(const Plan& plan, int first_rank, const Outputs& outputs);

 private:
  Operator op_;
  InputData data_;
  std::vector<std::pair<int64_t, int64_t>> blocks_;
  std::shared_ptr<SharedReference> inputs_, reference_;  // of the first nothing is kept
};

}  // namespace stretto::runtime
