// A job of one process a GPU: who this process is, and how it finds the others.
//
// From the environment, the first that is set: STRETTO_RANK and its kin (set by `stretto launch` or
// by hand), torchrun's RANK, Open MPI's OMPI_COMM_WORLD_RANK, PMI_RANK of other MPIs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/socket.h"

namespace stretto::fabric {

struct Job {
  int rank = 0, size = 1;
  int local_rank = 0;
  std::string started_by;  // "torchrun"
  // Rank 0's address where the user gave one; otherwise rank 0 leaves it in a meeting file.
  std::optional<Address> address;
  std::string meeting;  // the file's path
  std::string secret;   // empty with a meeting file: rank 0 makes one
  double join_timeout_s = 60, timeout_s = 60;

  // For runs whose waits may take so long: a rank whose own runs are done must not call another
  // late that may still find out why its runs are not.
  void allow_waits_of(double run_timeout_s);
};

using Lookup = std::function<const char*(const char*)>;
const char* lookup_environment(const char* name);

// Nothing when no launcher's variables are set. Throws UsageError when they make no sense.
std::optional<Job> job_from(const Lookup& lookup = lookup_environment);

// Meets the other processes. Throws SystemError.
std::unique_ptr<HostGroup> meet(const Job& job);

// The GPU of this process: its local rank, or the only one that it sees.
int gpu_of(const Job& job);

// This process's rank of the job, on its GPU. Without a source: NCCL windows where every process
// has them, exported memory elsewhere. `free_sms` here and below as of Fabric.
std::unique_ptr<Fabric> join(const Job& job, std::optional<Source> source = std::nullopt,
                             int free_sms = 0);

// A rank of a job that has met by other means than a launcher's environment.
struct MetRank {
  int rank = 0, ranks = 1, gpu = 0;
  // Collective: every rank's bytes, by rank.
  std::function<std::vector<std::string>(const std::string& mine)> exchange;
};
// Meets through it once. Throws UsageError where ranks disagree on who they are, or are not all on
// this machine.
std::unique_ptr<HostGroup> meet(const MetRank& job, double run_timeout_s);
std::unique_ptr<Fabric> join(const MetRank& job, double run_timeout_s, int free_sms = 0);

// What a program of `ranks` ranks, whose waits take at most `run_timeout_s`, runs on: its rank of
// the job that a launcher started, or all ranks in this process. Throws UsageError when the job has
// another number of ranks.
std::unique_ptr<Fabric> open_fabric(int ranks, std::optional<Source> source = std::nullopt,
                                    double run_timeout_s = 0, int free_sms = 0);

}  // namespace stretto::fabric
