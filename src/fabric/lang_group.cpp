#include "fabric/lang_group.h"

#include <fmt/format.h>

#include "fabric/lang_report.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

size_t LangGroup::bytes_of(size_t heap_bytes, int max_blocks, int ranks) {
  const size_t meetings = static_cast<size_t>(max_blocks) * static_cast<size_t>(ranks);
  return up(heap_bytes) + up(sizeof(uint32_t)) +
         up(meetings * device::kMeetWords * sizeof(uint64_t));
}

LangGroup::LangGroup(Fabric& fabric, size_t heap_bytes, int max_blocks, uint64_t timeout_ns)
    : fabric_(fabric) {
  if (fabric.ranks() > device::kMaxRanks) {
    throw UsageError(fmt::format("the device language serves at most {} ranks, not {}",
                                 device::kMaxRanks, fabric.ranks()));
  }
  if (max_blocks < 1) {
    throw UsageError(fmt::format("grids of at most {} blocks: at least one is needed", max_blocks));
  }
  const size_t meetings = static_cast<size_t>(max_blocks) * static_cast<size_t>(fabric.ranks());
  const size_t signal_bytes = meetings * device::kMeetWords * sizeof(uint64_t);
  heap_ = fabric.allocate(bytes_of(heap_bytes, max_blocks, fabric.ranks()),
                          "heap of the device language");
  fabric.device(fabric.first_rank()).make_current();
  told_ = cuda::HostWords(static_cast<size_t>(fabric.num_local()));
  for (int i = 0; i < fabric.num_local(); ++i) {
    fabric.device(fabric.first_rank() + i).make_current();
    local_.emplace_back(up(sizeof(device::ExpiredWait)) + meetings * sizeof(uint64_t));
    clear_local(i);
  }
  const size_t abort = allocate("abort", sizeof(uint32_t), 0);
  const size_t signals = allocate("sync_signals", signal_bytes, 0);
  first_ = used_;
  for (int i = 0; i < fabric.num_local(); ++i) {
    const int r = fabric.first_rank() + i;
    const cuda::DevicePtr local = local_[static_cast<size_t>(i)].address();
    device::GpuWorld world{};
    world.rank = r;
    world.num_ranks = fabric.ranks();
    world.max_blocks = max_blocks;
    world.timeout_ns = timeout_ns;
    world.heap_bytes = heap_.num_bytes();
    world.abort = at<device::uint32>(r, abort);
    world.expired = reinterpret_cast<device::ExpiredWait*>(local);
    world.sync_signals = at<device::uint64>(r, signals);
    world.sync_epochs = reinterpret_cast<device::uint64*>(local + up(sizeof(device::ExpiredWait)));
    world.host_word = told_.at(static_cast<size_t>(i));
    for (int p = 0; p < fabric.ranks(); ++p) {
      world.heaps[p] = reinterpret_cast<char*>(heap_.address(p, r));
    }
    worlds_.push_back(world);
  }
}

void LangGroup::clear_local(int index) {
  cuda::DeviceMemory& local = local_[static_cast<size_t>(index)];
  const std::vector<char> zeros(local.num_bytes());
  local.upload(zeros.data(), zeros.size());
}

void LangGroup::fill(const Piece& piece) {
  for (int i = 0; i < fabric_.num_local(); ++i) {
    const int r = fabric_.first_rank() + i;
    fabric_.device(r).make_current();
    const cuda::Stream stream;
    cuda::check(cuda::driver().fill_words(heap_.local(r) + piece.offset, piece.fill,
                                          piece.num_bytes / sizeof(uint32_t), stream.handle()),
                "fill symmetric memory");
    stream.synchronize();
  }
  fabric_.barrier();
}

size_t LangGroup::allocate(const std::string& name, size_t num_bytes, uint32_t fill_word) {
  const size_t room = heap_.num_bytes() - used_;
  const size_t rounded = num_bytes > room ? num_bytes : up(num_bytes);  // up() may overflow
  if (rounded > room) {
    throw UsageError(
        fmt::format("the symmetric heap of {} bytes has no room for the {} bytes of "
                    "'{}' behind {} in use",
                    heap_.num_bytes(), num_bytes, name, used_));
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
  std::string word = fmt::format("the word at {:#x}", what.address);
  const uint64_t heap = heap_.local(rank);
  for (const Piece& piece : pieces_) {
    if (what.address >= heap + piece.offset &&
        what.address < heap + piece.offset + piece.num_bytes) {
      word = fmt::format("byte {} of '{}'", what.address - heap - piece.offset, piece.name);
    }
  }
  return describe_wrong(rank, what, word, world(rank).timeout_ns / 1'000'000);
}

void LangGroup::check() {
  if (const std::string problem = take_problem(); !problem.empty()) throw SystemError(problem);
}

bool LangGroup::is_aborted() const {
  for (int i = 0; i < fabric_.num_local(); ++i) {
    fabric_.device(fabric_.first_rank() + i).make_current();
    uint32_t abort = 0;
    cuda::copy_from_gpu(&abort,
                        reinterpret_cast<cuda::DevicePtr>(worlds_[static_cast<size_t>(i)].abort),
                        sizeof abort);
    if (abort != 0) return true;
  }
  return false;
}

std::string LangGroup::own_problem() const {
  std::string mine;
  for (int i = 0; i < fabric_.num_local(); ++i) {
    fabric_.device(fabric_.first_rank() + i).make_current();
    device::ExpiredWait what{};
    local_[static_cast<size_t>(i)].download(&what, sizeof what);
    if (what.filled == 0) continue;
    mine += (mine.empty() ? "" : "; ") + describe(fabric_.first_rank() + i, what);
  }
  return mine;
}

std::string LangGroup::take_problem() {
  const std::string mine = own_problem();
  std::vector<std::string> of_processes;
  try {
    of_processes = fabric_.group().all_gather(
        "the end of a run", mine,
        mine.empty() ? 0 : patience_after_failure(worlds_.front().timeout_ns));
  } catch (const SystemError& error) {
    throw SystemError(mine.empty() ? error.what() : fmt::format("{}; {}", error.what(), mine));
  }
  std::string all;
  for (const std::string& text : of_processes) {
    if (!text.empty()) all += (all.empty() ? "" : "; ") + text;
  }
  if (all.empty()) return all;
  for (int i = 0; i < fabric_.num_local(); ++i) {
    fabric_.device(fabric_.first_rank() + i).make_current();
    clear_local(i);  // ranks have not all counted the same meetings
  }
  for (const Piece& piece : pieces_) fill(piece);
  told_.clear();
  return all;
}

}  // namespace stretto::fabric
