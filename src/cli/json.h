// The objects of --json. Their fields are documented in docs/cli.md; kJsonSchema grows when a field
// changes its meaning or goes away, not when one is added.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "cli/plan_file.h"
#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/machine.h"
#include "stretto/operator.h"
#include "stretto/plan.h"
#include "stretto/simulate.h"

namespace stretto::cli {

using Json = nlohmann::ordered_json;

inline constexpr int kJsonSchema = 1;

Json json_header(std::string_view verb);  // {"stretto": version, "schema": 1, "verb": ...}
Json to_json(const Operator& op);
// `lines`, `file`: null where the plan is from no file.
Json to_json(const CheckReport& report, const Plan& plan, const PlanLines* lines);
Json to_json(const EmulateResult& result, uint64_t seed, const PlanFile* file);
// {"lane": "rank 0 comm 1", "position": 3, "line": 60}
Json to_json(const InstrRef& where, const Plan& plan, const PlanLines* lines);
Json to_json(const Simulation& simulation);
Json plan_counts(const Plan& plan);
std::string dump(const Json& json);

}  // namespace stretto::cli
