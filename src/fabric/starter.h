// The process that started those of a job, where the launcher tells nothing that names the job.
#pragma once

#include <string>

namespace stretto::fabric {

// The nearest ancestor that was started without the variable, which the launcher gives all that it
// starts: wrappers and shells between have it too. As a number that no other process of this
// machine has had since it came up; empty where it cannot be found.
std::string starter_of(const char* variable);

}  // namespace stretto::fabric
