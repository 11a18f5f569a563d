// What is worth a measurement of an operator that is not one product, where `auto` is not sure.
#pragma once

#include <cstddef>
#include <vector>

#include "stretto/tune.h"
#include "tune/predict.h"

namespace stretto {

// Whole schedules of fixed rows, each of which can serve, at most `most`: what `auto` takes first;
// then cuBLAS and NCCL, since a choice must not lose to these; the first in two parts of the rows,
// and `tiles` for all products; then the first with one product after the other as that product's
// own shortlist has it, the best of each before the second. Where rows choose experts, what the
// simulation compares instead of the last. It simulates what auto_schedules() does.
std::vector<OperatorSchedule> graph_shortlist(const Operator& op, const Machine& machine,
                                              const Tuning& tuning, size_t most,
                                              Predictions& predictions);

}  // namespace stretto
