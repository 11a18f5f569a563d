// The variables of the environment that tell processes of their job.
#pragma once

#include <span>

namespace stretto::fabric {

// What a user, or `stretto launch`, tells a job's processes; launchers have words of their own.
struct JobVariable {
  const char* name;
  const char* meaning;
  bool is_secret = false;
};
std::span<const JobVariable> job_variables();

}  // namespace stretto::fabric
