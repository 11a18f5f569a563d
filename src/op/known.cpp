#include "op/known.h"

#include <algorithm>

namespace stretto {
namespace {

constexpr Held kHeld[] = {Held::whole,   Held::rows,    Held::cols,
                          Held::partial, Held::experts, Held::routed};
// What is 1 everywhere fits wherever anything does; no other two of them divide one another.
constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 11};
constexpr DType kTypes[] = {DType::i32, DType::bf16, DType::fp32,
                            DType::i64, DType::fp16, DType::i32};
constexpr size_t kVariants = std::size(kHeld);
static_assert(std::size(kSizes) == kVariants && std::size(kTypes) == kVariants);

// One of the tensors that it may be.
Tensor variant_of(Tensor tensor, const Known& known, size_t i) {
  if (!known.rows) tensor.rows = kSizes[i];
  if (!known.cols) tensor.cols = kSizes[i];
  if (!known.matrices) tensor.matrices = kSizes[i];
  if (!known.held) tensor.held = kHeld[i];
  if (!known.dtype) tensor.dtype = kTypes[i];
  return tensor;
}

// What differs from another variant's rule hangs on what is not known. Faults say the sizes that
// they come of, so those of other sizes have other words.
void keep_alike(const StageRule& other, KnownRule& kept) {
  const StageRule& rule = kept.rule;
  if (rule.fault != other.fault) kept.rule.fault.clear();
  kept.made.rows = kept.made.rows && rule.rows == other.rows;
  kept.made.cols = kept.made.cols && rule.cols == other.cols;
  kept.made.held = kept.made.held && rule.held == other.held;
  kept.made.dtype = kept.made.dtype && rule.dtype == other.dtype;
  for (size_t i = 0; i < kept.needs.size(); ++i) {
    if (rule.needs[i] != other.needs[i]) kept.needs[i] = false;
  }
}

}  // namespace

KnownRule known_rule(const std::vector<const Tensor*>& in, std::span<const Known> known,
                     const RuleOfOperands& rule_of) {
  const bool are_all =
      std::all_of(known.begin(), known.end(), [](const Known& one) { return one.all(); });
  KnownRule kept;
  for (size_t i = 0; i < (are_all ? 1 : kVariants); ++i) {
    std::vector<Tensor> tensors;
    for (size_t at = 0; at < in.size(); ++at) tensors.push_back(variant_of(*in[at], known[at], i));
    std::vector<const Tensor*> operands;
    for (const Tensor& one : tensors) operands.push_back(&one);
    StageRule rule = rule_of(operands);
    if (i > 0) {
      keep_alike(rule, kept);
      continue;
    }
    kept.needs.assign(rule.needs.size(), true);
    kept.rule = std::move(rule);
  }
  return kept;
}

}  // namespace stretto
