// The rules of legal() of operators, beside those of each product: what schedules must have in
// common, and edges at no product.
#pragma once

#include <string>
#include <vector>

#include "stretto/schedule.h"

namespace stretto {

// legal_products.cpp

// Why product number `at` cannot have its schedule in this operator, beside those of the others.
std::vector<std::string> why_not_beside_others(const Operator& op, const OperatorSchedule& schedule,
                                               size_t at);
// Why the machine has too few SMs for all products at once; empty where it has enough.
std::string why_no_sm_left(const Operator& op, const OperatorSchedule& schedule,
                           const Machine& machine);

// legal_edge_alone.cpp: why an edge at no product cannot have its mover; empty where it can.
std::string why_no_edge(const Operator& op, const OperatorSchedule& schedule,
                        const EdgeSchedule& edge);

}  // namespace stretto
