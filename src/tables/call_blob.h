// What of a rank's tables hangs on where a call's tensors lie, as one piece of memory: it is made
// once for each set of addresses, and kernels are told where it is.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tables/call_lists.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {

class CallBlob {
 public:
  using Encode = device::TensorMap (*)(const MapSpec& spec, const device::GemmConfig& config);
  using Move = void (*)(device::TensorMap& map, DevicePtr to);
  // Of tables that were made with stand-ins. `encode` and `move` are the driver's, or a test's.
  explicit CallBlob(const RankTables& tables, Encode encode = encode_map, Move move = move_map);

  // Where a kernel finds its own, in bytes from the begin; nothing: it is the same for all calls,
  // and not here.
  struct Gemm {
    size_t maps = 0, acquired = 0;
    uint32_t num_maps = 0;  // of a set
    std::optional<size_t> follows = {}, entries = {};
  };
  const std::vector<Gemm>& gemms() const { return gemms_; }
  // By mover kernel.
  const std::vector<std::optional<size_t>>& regions() const { return regions_; }

  size_t num_bytes() const { return fixed_.size(); }
  // What is the same for all calls, at `to`.
  void begin(std::byte* to) const;
  // What is this call's, behind begin(). Maps of as many rows as some call had before are not
  // encoded again, but moved.
  void write(std::byte* to, CallPlaces places);
  // How much of it is a call's: maps that differ, and addresses.
  size_t num_call_maps() const { return maps_.size(); }
  size_t num_call_addresses() const { return addresses_.size() + moved_.size(); }

 private:
  // Maps that are alike, as sets of them are; and those encoded before, by what calls differ in
  // but for addresses.
  struct Known {
    device::TensorMap map;
    DevicePtr address;
  };
  struct Maps {
    std::vector<size_t> at;
    size_t config;
    MapSpec spec;
    std::map<std::pair<int64_t, int64_t>, Known> known = {};  // by rows, elements to the next
  };
  struct Address {
    size_t at;
    DevicePtr stand_in;
  };
  template <typename T>
  size_t append(const std::vector<T>& values);
  void add_map(const MapSpec& spec, size_t at);
  void add_follows(Gemm& gemm, const GemmTable& table);
  void add_entries(Gemm& gemm, const GemmTable& table);
  void add_regions(const MoverTable& table);
  const device::TensorMap& encoded(Maps& maps, CallPlaces places);

  Encode encode_;
  Move move_;
  std::vector<device::GemmConfig> configs_;
  std::vector<Gemm> gemms_;
  std::vector<std::optional<size_t>> regions_;
  std::vector<std::byte> fixed_;
  std::vector<Maps> maps_;
  std::vector<Address> addresses_;
  std::vector<Address> moved_;  // regions of movers, whose rows lie as far apart as the call's
};

}  // namespace stretto::cuda
