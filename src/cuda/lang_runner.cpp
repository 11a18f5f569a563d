#include "cuda/lang_runner.h"

#include <fmt/format.h>

#include "stretto/error.h"

namespace stretto::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

std::string lang_source(const LangKernelName& name, int max_threads) {
  return fmt::format(R"(#include "stretto/device/lang/gpu_block.h"
#include "stretto/device/lang/{}"
using namespace stretto::device;
extern "C" __global__ void __launch_bounds__({}, 1)
stretto_lang(const __grid_constant__ LaunchParameters<{}> parameters) {{
  GpuBlock block(parameters.world);
  {}(block, parameters.args);
}}
)",
                     name.header, max_threads, name.args, name.kernel);
}

LangGroup::LangGroup(const PeerGroup& group, size_t heap_bytes, int max_blocks, uint64_t timeout_ns)
    : group_(group) {
  const auto num_ranks = static_cast<size_t>(group.ranks());
  if (group.ranks() > device::kMaxRanks) {
    throw UsageError(fmt::format("the device language serves at most {} ranks, not {}",
                                 device::kMaxRanks, group.ranks()));
  }
  for (int r = 0; r < group.ranks(); ++r) {
    group.device(r).make_current();
    heaps_.emplace_back(up(heap_bytes));
    local_.emplace_back(up(sizeof(device::ExpiredWait)) +
                        static_cast<size_t>(max_blocks) * sizeof(uint64_t));
    const std::vector<char> zeros(local_.back().num_bytes());
    local_.back().upload(zeros.data(), zeros.size());
  }
  const size_t abort = allocate("abort", sizeof(uint32_t), 0);
  const size_t signals =
      allocate("sync_signals", static_cast<size_t>(max_blocks) * num_ranks * sizeof(uint64_t), 0);
  first_ = used_;
  for (int r = 0; r < group.ranks(); ++r) {
    device::GpuWorld world{};
    world.rank = r;
    world.num_ranks = group.ranks();
    world.timeout_ns = timeout_ns;
    world.abort = at<device::uint32>(r, abort);
    world.expired = local_[static_cast<size_t>(r)].as<device::ExpiredWait>();
    world.sync_signals = at<device::uint64>(r, signals);
    world.sync_epochs = reinterpret_cast<device::uint64*>(local_[static_cast<size_t>(r)].address() +
                                                          up(sizeof(device::ExpiredWait)));
    for (int p = 0; p < group.ranks(); ++p) world.heaps[p] = at<char>(p, 0);
    worlds_.push_back(world);
  }
}

void LangGroup::fill(const Piece& piece) {
  for (int r = 0; r < group_.ranks(); ++r) {
    group_.device(r).make_current();
    const Stream stream;
    cuda::check(driver().fill_words(heaps_[static_cast<size_t>(r)].address() + piece.offset,
                                    piece.fill, piece.num_bytes / sizeof(uint32_t),
                                    stream.handle()),
                "fill symmetric memory");
    stream.synchronize();
  }
}

size_t LangGroup::allocate(const std::string& name, size_t num_bytes, uint32_t fill_word) {
  const size_t rounded = up(num_bytes);
  if (rounded > heaps_.front().num_bytes() - used_) {
    throw UsageError(fmt::format("the symmetric heap of {} bytes has no room for the {} bytes of "
                                 "'{}' behind {} in use",
                                 heaps_.front().num_bytes(), num_bytes, name, used_));
  }
  pieces_.push_back({name, used_, rounded, fill_word});
  used_ += rounded;
  fill(pieces_.back());
  return pieces_.back().offset;
}

void LangGroup::refill(size_t offset) {
  for (const Piece& piece : pieces_) {
    if (piece.offset == offset) fill(piece);
  }
}

void LangGroup::release_all() {
  std::erase_if(pieces_, [&](const Piece& piece) { return piece.offset >= first_; });
  used_ = first_;
}

std::string LangGroup::describe(int rank, const device::ExpiredWait& what) const {
  if (what.disagrees != 0) {
    return fmt::format(
        "rank {} and rank {} make the same call with different arguments: number {} is {} on rank "
        "{} and {} on rank {}",
        rank, what.from, what.address + 1, what.expected, rank, what.seen, what.from);
  }
  std::string word = fmt::format("the word at {:#x}", what.address);
  const uint64_t heap = heaps_[static_cast<size_t>(rank)].address();
  for (const Piece& piece : pieces_) {
    if (what.address >= heap + piece.offset &&
        what.address < heap + piece.offset + piece.num_bytes) {
      word = fmt::format("byte {} of '{}'", what.address - heap - piece.offset, piece.name);
    }
  }
  const std::string from = what.from < 0 ? "" : fmt::format(" for rank {}", what.from);
  return fmt::format("rank {} block {} waited {} ms{}: {} is {}, expected {}", rank, what.block,
                     worlds_[static_cast<size_t>(rank)].timeout_ns / 1'000'000, from, word,
                     what.seen, what.expected);
}

void LangGroup::check() {
  std::string what;
  for (int r = 0; r < group_.ranks(); ++r) {
    group_.device(r).make_current();
    device::ExpiredWait expired{};
    local_[static_cast<size_t>(r)].download(&expired, sizeof expired);
    if (expired.filled == 0) continue;
    what += (what.empty() ? "" : "; ") + describe(r, expired);
    expired = {};
    local_[static_cast<size_t>(r)].upload(&expired, sizeof expired);
  }
  if (what.empty()) return;
  for (const Piece& piece : pieces_) fill(piece);
  throw SystemError(what);
}

}  // namespace stretto::cuda
