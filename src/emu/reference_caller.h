// A caller whose inputs are made of a seed, and who compares the outputs with the reference once
// every rank's are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "emu/caller.h"
#include "emu/faults.h"
#include "emu/output_check.h"
#include "emu/shared_reference.h"

namespace stretto::emu {

class ReferenceCaller : public Caller {
 public:
  ReferenceCaller(const Plan& plan, const EmulateOptions& options, Memory& memory, Faults& faults);

  void write_inputs(int rank, int run) override;
  void read_output(int rank, int run) override;
  void report(EmulateResult& result) const override;

 private:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;
  struct Run {
    std::vector<std::vector<Bytes>> outputs;  // by output and rank
    int read = 0;
  };
  void verify(int run, const Run& outputs);
  InputData data(int run) const;
  // The first of the rank's team, where each of these has a whole output.
  size_t first_of_team(int tensor, int rank) const {
    return static_cast<size_t>(plan_.op.first_of_team(plan_.op.tensor(tensor), rank));
  }

  const EmulateOptions& options_;
  Faults& faults_;
  std::shared_ptr<SharedReference> reference_;
  Roundings roundings_;
  OutputCheck check_;
  std::map<int, Run> runs_;       // outputs that have been read and not yet verified
  std::vector<uint64_t> hashes_;  // by run and rank
  int verified_runs_ = 0;
  bool ranks_agree_ = true;
};

}  // namespace stretto::emu
