#include "fabric/job_variables.h"

namespace stretto::fabric {

std::span<const JobVariable> job_variables() {
  static constexpr JobVariable kVariables[] = {
      {"STRETTO_RANK", "this process's rank of a job; what its launcher says when unset"},
      {"STRETTO_RANKS", "how many ranks that job has"},
      {"STRETTO_LOCAL_RANK", "the process's GPU of those it sees; its rank when unset"},
      {"STRETTO_JOB", "tells the job from others of this user on this machine"},
      {"STRETTO_ADDRESS", "HOST:PORT where rank 0 of a job listens; it tells by a file when unset"},
      {"STRETTO_SECRET_FILE",
       "a file of mode 0600 with the job's secret, which STRETTO_ADDRESS needs"},
      {"STRETTO_JOB_SECRET", "the secret itself: 64 hexadecimal digits", true},
      {"STRETTO_JOIN_SECONDS", "how long all have to come to a job; 60 when unset"},
  };
  return kVariables;
}

}  // namespace stretto::fabric
