// Runs on several streams, of several contexts, that order themselves: in the stub of the driver,
// which tells for what streams wait.
#include <gmock/gmock.h>

#include <map>
#include <vector>

#include "gpu/device.h"
#include "stretto/context.h"
#include "stub_launches.h"

namespace stretto {
namespace {

using testing::ElementsAre, testing::IsEmpty;

constexpr int64_t kRows = 256;
const Segment kProduct{kGemmRs, kRows, 512, 512, 2, DType::bf16};

// Waits of streams of the caller's for each other, "second for first", so far.
std::vector<std::pair<uint64_t, uint64_t>> waits_among(const std::vector<uint64_t>& streams) {
  const auto is_callers = [&](uint64_t stream) {
    return std::find(streams.begin(), streams.end(), stream) != streams.end();
  };
  const std::string path = std::getenv("STUB_ORDER");
  std::vector<std::pair<uint64_t, uint64_t>> found;
  std::map<uint64_t, uint64_t> recorded;  // where each event was last
  std::ifstream file(path);
  std::string what;
  for (uint64_t event = 0, stream = 0; file >> what >> event >> stream;) {
    if (what == "record") recorded[event] = stream;
    const bool is_order = what == "wait" && is_callers(stream) && is_callers(recorded[event]);
    if (is_order) found.emplace_back(stream, recorded[event]);
  }
  return found;
}

TEST(StreamOrder, IsOfAllContextsThatAskForIt) {
  EXPECT_EQ(run_inside(in_the_stub("STUB_ORDER=$(mktemp)"), "StreamOrderInTheStub.WaitsForOthers"),
            0);
}

TEST(StreamOrderInTheStub, WaitsForOthers) {
  STRETTO_INSIDE_THE_STUB();
  for (const bool orders : {false, true}) {
    Context context(2, {.timeout_s = 1, .orders_streams = orders});
    Context other(2, {.timeout_s = 1, .orders_streams = orders});
    Operation operation(context, kProduct, {.schedule = "tiles"});
    Operation of_other(other, kProduct, {.schedule = "tiles"});
    const TensorMemory memory(context, operation), of_others(other, of_other);
    context.make_current(0);
    const cuda::Stream first, second;
    const auto number = [](const cuda::Stream& stream) {
      return reinterpret_cast<uint64_t>(stream.handle());
    };
    const uint64_t a = number(first), b = number(second);
    const auto told = [&] { return waits_among({a, b}); };
    const auto run = [&](Operation& one, const TensorMemory& tensors, const cuda::Stream& stream) {
      one.run(0, stream.handle(), kRows, tensors.of(0));
    };
    run(operation, memory, first);
    run(operation, memory, first);
    run(of_other, of_others, first);
    EXPECT_THAT(told(), IsEmpty());
    run(of_other, of_others, second);
    run(operation, memory, first);
    if (!orders) {
      EXPECT_THAT(told(), IsEmpty());
      continue;
    }
    EXPECT_THAT(told(), ElementsAre(std::pair(b, a), std::pair(a, b)));
    // What is captured waits for nothing outside, and nothing outside for it.
    setenv("STUB_CAPTURED", std::to_string(b).c_str(), 1);
    run(operation, memory, second);
    unsetenv("STUB_CAPTURED");
    EXPECT_EQ(told().size(), 2u);
    run(operation, memory, second);
    EXPECT_THAT(told(), ElementsAre(std::pair(b, a), std::pair(a, b), std::pair(b, a)));
  }
}

}  // namespace
}  // namespace stretto
