#include "cli/known_variables.h"

#include <algorithm>

#include "core/environment.h"
#include "fabric/job.h"
#include "fabric/job_variables.h"

namespace stretto::cli {

std::vector<KnownVariable> known_variables() {
  std::vector<KnownVariable> known;
  for (const EnvironmentVariable& row : environment_variables()) {
    known.push_back(
        {std::string(row.variable), std::string(row.meaning), environment().*row.field});
  }
  for (const fabric::JobVariable& row : fabric::job_variables()) {
    const char* value = fabric::lookup_environment(row.name);
    known.push_back({row.name, row.meaning,
                     value == nullptr ? ""
                     : row.is_secret  ? "(hidden)"
                                      : value});
  }
  return known;
}

std::vector<KnownVariable> set_variables() {
  std::vector<KnownVariable> known = known_variables();
  known.erase(std::remove_if(known.begin(), known.end(),
                             [](const KnownVariable& one) { return one.value.empty(); }),
              known.end());
  return known;
}

}  // namespace stretto::cli
