#include "fabric/job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "core/environment.h"
#include "core/text.h"
#include "fabric/frame.h"
#include "fabric/meeting_file.h"
#include "fabric/starter.h"
#include "fabric/tcp_group.h"
#include "gpu/shared_gpus.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;  // nullptr: the rank
  const char* local_size;  // nullptr: not told
  // What tells this job from others of this user on this machine, all that are set.
  const char* keys[3];
  // Each job has a process of its own that starts the others, which tells it too.
  bool has_starter = false;
};
constexpr Launcher kLaunchers[] = {
    {"stretto", "STRETTO_RANK", "STRETTO_RANKS", "STRETTO_LOCAL_RANK", nullptr, {"STRETTO_JOB"}},
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"}},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    {"MPI",
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     {"PMI_PORT", "PMI_JOBID"},
     true},
};

std::optional<int> number(const Lookup& lookup, const char* name, int least, int most) {
  const char* text = name == nullptr ? nullptr : lookup(name);
  if (text == nullptr) return std::nullopt;
  const auto value = int_from(text);
  if (!value || *value < least || *value > most) {
    throw UsageError(
        fmt::format("{}={}: a number from {} to {} is needed", name, quote(text), least, most));
  }
  return static_cast<int>(*value);
}

std::string secret_from(const Lookup& lookup) {
  if (const char* path = lookup("STRETTO_SECRET_FILE")) return secret_from_file(path);
  const char* text = lookup("STRETTO_JOB_SECRET");
  if (text == nullptr) return {};
  const std::string secret(text);
  if (!is_secret(secret)) {
    throw UsageError(
        fmt::format("STRETTO_JOB_SECRET must be {} hexadecimal digits (0-9, a-f)", kSecretBytes));
  }
  return secret;
}

std::string key_of(const Launcher& launcher, const Lookup& lookup) {
  std::string key;
  for (const char* name : launcher.keys) {
    const char* value = name == nullptr ? nullptr : lookup(name);
    if (value == nullptr) continue;
    if (!key.empty()) key += '-';
    key += value;
  }
  return key;
}

// A file of an earlier job may lie there until rank 0 has replaced it: who finds nobody or another
// job by it reads it again.
std::unique_ptr<HostGroup> meet_by_file(const Job& job, Member member) {
  constexpr double kTryS = 0.2;
  const Deadline deadline = after(job.join_timeout_s);
  std::string last =
      fmt::format("rank 0 did not leave {} within {:g} s", job.meeting, job.join_timeout_s);
  while (left_ms(deadline) > 0) {
    std::optional<Meeting> meeting;
    try {
      meeting = read_meeting(job.meeting);
    } catch (const NotThisJob& error) {
      last = error.what();
    }
    if (meeting) {
      member.secret = meeting->secret;
      member.join_timeout_s = left_ms(deadline) / 1000.0;
      last = fmt::format("rank 0 of {} does not listen at {}", job.meeting,
                         to_string(meeting->address));
      try {
        if (auto socket = connect_to(meeting->address, after(kTryS))) {
          return tcp_group(member, meeting->address, std::move(socket), nullptr);
        }
      } catch (const NotThisJob& error) {
        last = error.what();
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  throw SystemError(last);
}

}  // namespace

const char* lookup_environment(const char* name) { return std::getenv(name); }

std::optional<Job> job_from(const Lookup& lookup) {
  for (const Launcher& launcher : kLaunchers) {
    const auto size = number(lookup, launcher.size, 1, kMaxProcesses);
    const auto rank = number(lookup, launcher.rank, 0, kMaxProcesses - 1);
    if (!size && !rank) continue;
    if (!size || !rank) {
      throw UsageError(fmt::format("{} is set without {}", rank ? launcher.rank : launcher.size,
                                   rank ? launcher.size : launcher.rank));
    }
    if (*rank >= *size) {
      throw UsageError(fmt::format("{}={}: ranks of a job of {} are 0 to {}", launcher.rank, *rank,
                                   *size, *size - 1));
    }
    const auto local_size = number(lookup, launcher.local_size, 1, kMaxProcesses);
    if (local_size && *local_size != *size) {
      throw UsageError(fmt::format("{} of {} ranks are on this machine; all must be on one",
                                   *local_size, *size));
    }
    Job job;
    job.rank = *rank;
    job.size = *size;
    job.local_rank = number(lookup, launcher.local_rank, 0, kMaxProcesses - 1).value_or(*rank);
    job.started_by = launcher.name;
    job.secret = secret_from(lookup);
    const auto seconds = number(lookup, "STRETTO_JOIN_SECONDS", 1, 86400);
    if (seconds) job.join_timeout_s = *seconds;
    if (const char* text = lookup("STRETTO_ADDRESS")) {
      job.address = address_from(text);
      if (job.address->port == 0) throw UsageError("STRETTO_ADDRESS needs a port other than 0");
      if (job.secret.empty()) {
        throw UsageError("STRETTO_ADDRESS needs STRETTO_JOB_SECRET or STRETTO_SECRET_FILE");
      }
      return job;
    }
    std::string key = key_of(launcher, lookup);
    if (key.empty() && launcher.has_starter) key = starter_of(launcher.rank);
    if (key.empty() && *size > 1) {
      throw UsageError(
          fmt::format("nothing tells this {} job from others; set {} or "
                      "STRETTO_ADDRESS=HOST:PORT on every rank",
                      launcher.name, launcher.keys[0]));
    }
    if (*size > 1) job.meeting = meeting_path(fmt::format("{}-{}", launcher.name, key));
    return job;
  }
  return std::nullopt;
}

void Job::allow_waits_of(double run_timeout_s) {
  // A stream's wait, then that of a kernel behind it; and time to tell.
  timeout_s = std::max(timeout_s, 2 * run_timeout_s + 30);
}

std::unique_ptr<HostGroup> meet(const Job& job) {
  if (job.size == 1) return solo_group();
  Member member{job.rank, job.size, job.secret, job.join_timeout_s, job.timeout_s};
  if (job.rank != 0) {
    if (!job.address) return meet_by_file(job, member);
    return tcp_group(member, *job.address, {}, nullptr);
  }
  if (member.secret.empty()) member.secret = new_secret();
  Address address = job.address.value_or(Address{"127.0.0.1", 0});
  auto server = std::make_unique<TcpServer>(address, job.size, member.secret);
  address.port = server->port();
  if (job.address) return tcp_group(member, address, {}, std::move(server));
  write_meeting(job.meeting, {address, member.secret});
  struct Remove {
    const std::string& path;
    ~Remove() { unlink(path.c_str()); }
  } const remove{job.meeting};
  return tcp_group(member, address, {}, std::move(server));
}

namespace {

// Kernels of different processes on one GPU take turns: who met by an exchange of their own may
// have it so, since no command that measures is in between.
void require_own_gpus(const Job& job) {
  if (const int shared = cuda::ranks_a_gpu(); shared > 1) {
    throw UsageError(
        fmt::format("STRETTO_RANKS_A_GPU={} is for ranks of one process, but {} started {}: unset "
                    "it, or run without a launcher",
                    shared, job.started_by, job.size));
  }
}

}  // namespace

int gpu_of(const Job& job) { return cuda::num_devices() == 1 ? 0 : job.local_rank; }

namespace {

std::optional<Source> chosen_source() {
  const std::string& chosen = environment().fabric;
  if (chosen.empty()) return std::nullopt;
  try {
    return source_from(chosen);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("STRETTO_FABRIC: {}", error.what()));
  }
}

std::unique_ptr<Fabric> fabric_of(std::unique_ptr<HostGroup> group, int gpu,
                                  std::optional<Source> source, int free_sms) {
  if (!source) {
    source = Source::windows;
    const std::string mine = cuda::ranks_a_gpu() > 1 ? "ranks share GPUs" : why_no_windows();
    for (const std::string& reason : group->all_gather("looking for NCCL", mine)) {
      if (!reason.empty()) source = Source::exported;
    }
  }
  return std::make_unique<Fabric>(std::move(group), std::vector<int>{gpu}, *source, free_sms);
}

}  // namespace

std::unique_ptr<Fabric> join(const Job& job, std::optional<Source> source, int free_sms) {
  require_own_gpus(job);
  return fabric_of(meet(job), gpu_of(job), source, free_sms);
}

std::unique_ptr<Fabric> join(const MetRank& job, double run_timeout_s, int free_sms) {
  const std::optional<Source> source = chosen_source();
  std::unique_ptr<HostGroup> group = meet(job, run_timeout_s);
  if (job.ranks > 1) return fabric_of(std::move(group), job.gpu, source, free_sms);
  return std::make_unique<Fabric>(std::move(group), std::vector<int>{job.gpu},
                                  source.value_or(Source::peer), free_sms);
}

std::unique_ptr<Fabric> open_fabric(int ranks, std::optional<Source> source, double run_timeout_s,
                                    int free_sms) {
  if (!source) source = chosen_source();
  auto job = job_from();
  if (!job) return in_process(ranks, source.value_or(Source::peer), free_sms);
  if (job->size != ranks) {
    throw UsageError(fmt::format("{} ranks were asked for, but {} started {} processes", ranks,
                                 job->started_by, job->size));
  }
  job->allow_waits_of(run_timeout_s);
  return join(*job, source, free_sms);
}

}  // namespace stretto::fabric
