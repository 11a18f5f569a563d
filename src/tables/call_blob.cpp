#include "tables/call_blob.h"

#include <cstring>

#include "tables/flat_lists.h"

namespace stretto::cuda {
namespace {

constexpr size_t kAlignment = 128;  // of tensor maps
constexpr size_t kMostKnown = 512;  // of a kind, one for each row count

}  // namespace

template <typename T>
size_t CallBlob::append(const std::vector<T>& values) {
  const size_t at = fixed_.size();
  const size_t bytes = values.size() * sizeof(T);
  fixed_.resize(at + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (bytes != 0) std::memcpy(fixed_.data() + at, values.data(), bytes);
  return at;
}

CallBlob::CallBlob(const RankTables& tables, Encode encode, Move move)
    : encode_(encode), move_(move) {
  for (const GemmLaunch& launch : tables.gemms) {
    configs_.push_back(launch.config);
    Gemm& gemm = gemms_.emplace_back();
    gemm.num_maps = static_cast<uint32_t>(launch.maps.size()) / launch.table.map_sets;
    std::vector<device::TensorMap> maps;
    gemm.maps = fixed_.size();
    for (const MapSpec& spec : launch.maps) {
      if (is_stand_in(spec.matrix.address)) {
        add_map(spec, gemm.maps + maps.size() * sizeof(device::TensorMap));
        maps.emplace_back();
      } else {
        maps.push_back(encode_(spec, launch.config));
      }
    }
    append(maps);
    // Blocks note that they have seen these maps, not those that lay here before.
    gemm.acquired = append(std::vector<uint32_t>(device::kMostSms));
    add_follows(gemm, launch.table);
  }
  for (size_t g = 0; g < gemms_.size(); ++g) add_entries(gemms_[g], tables.gemms[g].table);
  for (const MoverTable& table : tables.moves) add_regions(table);
}

// What hangs on no call lies with the kernel's other tables: lists of tasks may be long, and all
// that is here is copied for each call at new addresses.
void CallBlob::add_follows(Gemm& gemm, const GemmTable& table) {
  std::vector<device::GemmFollow> follows;
  flatten(table.follows, follows);
  const size_t first = fixed_.size(), before = addresses_.size();
  for (size_t i = 0; i < follows.size(); ++i) {
    for (size_t half = 0; half < std::size(follows[i].bias); ++half) {
      if (!is_stand_in(follows[i].bias[half])) continue;
      addresses_.push_back({first + i * sizeof(device::GemmFollow) +
                                offsetof(device::GemmFollow, bias) + half * sizeof(DevicePtr),
                            follows[i].bias[half]});
    }
  }
  if (addresses_.size() != before) gemm.follows = append(follows);
}

void CallBlob::add_entries(Gemm& gemm, const GemmTable& table) {
  const std::vector<device::GemmEntry> entries = all_entries(table);
  const size_t first = fixed_.size(), before = addresses_.size();
  for (size_t i = 0; i < entries.size(); ++i) {
    const size_t entry = first + i * sizeof(device::GemmEntry);
    if (is_stand_in(entries[i].x)) {
      addresses_.push_back({entry + offsetof(device::GemmEntry, x), entries[i].x});
    }
    if (is_stand_in(entries[i].to.address)) {
      addresses_.push_back(
          {entry + offsetof(device::GemmEntry, to) + offsetof(device::ScatteredRows, address),
           entries[i].to.address});
    }
  }
  if (addresses_.size() != before) gemm.entries = append(entries);
}

void CallBlob::add_regions(const MoverTable& table) {
  std::vector<device::MoverRegion> regions;
  flatten(table.regions, regions);
  const size_t first = fixed_.size(), before = addresses_.size() + moved_.size();
  for (size_t i = 0; i < regions.size(); ++i) {
    const device::MoverRegion& region = regions[i];
    if (!is_stand_in(region.address)) continue;
    const size_t at = first + i * sizeof(region);
    if (region.row_bytes == 0) {  // one row again and again
      addresses_.push_back({at + offsetof(device::MoverRegion, address), region.address});
    } else {
      moved_.push_back({at, region.address});
    }
  }
  regions_.emplace_back();
  if (addresses_.size() + moved_.size() != before) regions_.back() = append(regions);
}

void CallBlob::add_map(const MapSpec& spec, size_t at) {
  const size_t config = configs_.size() - 1;
  for (Maps& maps : maps_) {
    if (maps.config != config || maps.spec.use != spec.use || maps.spec.box_rows != spec.box_rows ||
        maps.spec.matrix != spec.matrix) {
      continue;
    }
    maps.at.push_back(at);
    return;
  }
  maps_.push_back({{at}, config, spec});
}

void CallBlob::begin(std::byte* to) const { std::memcpy(to, fixed_.data(), fixed_.size()); }

const device::TensorMap& CallBlob::encoded(Maps& maps, CallPlaces places) {
  MapSpec spec = maps.spec;
  spec.matrix = at_call(spec.matrix, places);
  const std::pair rows(spec.matrix.rows, spec.matrix.stride);
  const auto found = maps.known.find(rows);
  if (found == maps.known.end()) {
    const device::TensorMap map = encode_(spec, configs_[maps.config]);
    if (maps.known.size() >= kMostKnown) maps.known.clear();
    return (maps.known[rows] = {map, spec.matrix.address}).map;
  }
  Known& known = found->second;
  if (known.address != spec.matrix.address) move_(known.map, spec.matrix.address);
  known.address = spec.matrix.address;
  return known.map;
}

void CallBlob::write(std::byte* to, CallPlaces places) {
  for (Maps& maps : maps_) {
    const device::TensorMap& map = encoded(maps, places);
    for (const size_t at : maps.at) std::memcpy(to + at, &map, sizeof(map));
  }
  for (const Address& address : addresses_) {
    const DevicePtr at = at_call(address.stand_in, places);
    std::memcpy(to + address.at, &at, sizeof(at));
  }
  for (const Address& moved : moved_) {
    const device::MoverRegion region{at_call(moved.stand_in, places),
                                     places[tensor_of(moved.stand_in)].row_bytes};
    std::memcpy(to + moved.at, &region, sizeof(region));
  }
}

}  // namespace stretto::cuda
