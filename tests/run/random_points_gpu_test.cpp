// Random points of the space on GPUs: sizes that nothing divides, fewer rows than ranks, numbers of
// ranks that are no power of two, every mover and signal. Each is right, or refused with a reason.
//
// For a long walk: test_run --gtest_filter='RandomPoints*' --gtest_repeat=100. The seed that is
// printed repeats a run's points.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>

#include "compile_plans.h"
#include "gpu_plans.h"
#include "measure/gpu_check.h"
#include "stretto/error.h"
#include "tables/kernel_set.h"

namespace stretto::runtime {
namespace {

constexpr int kPoints = 24;
constexpr const char* kSeed = "STRETTO_TEST_SEED";

struct GpuPoint {
  std::string text;
  Plan plan;
  bool same_bits = false;
};

class PointMaker {
 public:
  explicit PointMaker(uint64_t seed) : random_(seed) {}

  // Of the next legal point that GPUs have kernels for.
  GpuPoint next() {
    for (;;) {
      const Segment op = any_operator();
      const Machine machine = machine_here(op.ranks);
      Schedule schedule = any_schedule(op, machine);
      // So that no operator is rarer than others for having fewer legal schedules.
      for (int tries = 0; tries < 100 && !legal(op, schedule, machine).empty(); ++tries) {
        schedule = any_schedule(op, machine);
      }
      if (!legal(op, schedule, machine).empty()) continue;
      Plan plan = lower(op, schedule, machine);
      if (!why_not_shared_here(plan).empty()) continue;
      try {
        cuda::kernels_of(plan, "sm_90a");
      } catch (const UsageError& refusal) {
        EXPECT_EQ(std::string(refusal.what()).find('\n'), std::string::npos) << refusal.what();
        ++refused;
        continue;
      }
      return {to_string(op) + " " + to_string(schedule), std::move(plan),
              is_deterministic(schedule)};
    }
  }

  int refused = 0;

 private:
  int between(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  bool one_in(int count) { return between(1, count) == 1; }
  template <typename T>
  T any_of(std::initializer_list<T> values) {
    return *(values.begin() + between(0, static_cast<int>(values.size()) - 1));
  }

  Segment any_operator() {
    Segment op;
    op.kind = any_of({kAgGemm, kGemmRs, kGemmAr});
    op.dtype = any_of({DType::bf16, DType::fp16});
    op.ranks = between(1, std::min(8, cuda::num_devices() * cuda::ranks_a_gpu()));
    op.m = one_in(4) ? between(1, 2 * op.ranks) : between(1, 1500);
    // Rows of matrices begin at multiples of 16 bytes.
    op.n = 8 * between(1, one_in(3) ? 20 : 120);
    op.k = 8 * between(1, one_in(3) ? 400 : 60);
    (op.makes_terms() ? op.k : op.n) *= op.ranks;
    return op;
  }

  Schedule any_schedule(const Segment& op, const Machine& machine) {
    const std::span<const Preset> all = presets();
    Schedule s =
        all[static_cast<size_t>(between(0, static_cast<int>(all.size()) - 1))].make(op, machine);
    s.tile_m = any_of({64, 128});
    s.tile_n = any_of({64, 96, 128, 160, 192, 224, 256});
    s.swizzle = between(1, 16);
    if (one_in(4)) s.rows = RowCount::bucket;
    if (one_in(3)) s.split_k = between(1, 6);
    if (!op.makes_terms() && one_in(2)) s.k_phases = between(1, 8);
    for (int changes = between(0, 3); changes > 0; --changes) change_one(s);
    if (!op.makes_terms() && s.mover == Mover::comm_blocks && one_in(3)) {
      s.cluster = 2;
      s.comm_sms += s.comm_sms % 2;
    }
    if (s.gemm == GemmBy::library && one_in(2)) s.algorithm = between(0, kMostAlgorithms - 1);
    return s;
  }

  void change_one(Schedule& s) {
    switch (between(0, 8)) {
      case 0:
        s.granularity = any_of({Granularity::chunk, Granularity::slice, Granularity::tile});
        break;
      case 1:
        s.order = any_of({Order::plain, Order::own_first, Order::arrival, Order::peer_staggered,
                          Order::interleaved});
        break;
      case 2:
        s.mover = any_of({Mover::epilogue, Mover::comm_blocks, Mover::copy_engine, Mover::nccl});
        break;
      case 3:
        s.sync = any_of({Sync::event, Sync::flag, Sync::counter});
        break;
      case 4:
        s.reuse = any_of({Reuse::ack, Reuse::double_buffer});
        break;
      case 5:
        s.partials = any_of({DType::bf16, DType::fp32});
        break;
      case 6:
        s.reduction = any_of({Reduction::one_shot, Reduction::two_shot, Reduction::slots});
        break;
      case 7:
        s.chunks = between(1, 5);
        break;
      default:
        s.comm_sms = between(0, 20);
    }
  }

  std::mt19937_64 random_;
};

// Every run has points of its own, unless it is told which.
uint64_t seed_of_points() {
  if (const char* told = std::getenv(kSeed)) return std::strtoull(told, nullptr, 10);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

TEST(RandomPointsOnGpus, AreRightOrRefused) {
  if (const std::string why = why_not_here(2); !why.empty()) STRETTO_SKIP(why);
  const uint64_t seed = seed_of_points();
  const std::string repeat = fmt::format("{}={} repeats these points", kSeed, seed);
  std::cout << repeat << "\n";
  SCOPED_TRACE(repeat);
  PointMaker maker(seed);
  std::vector<GpuPoint> points;
  for (int i = 0; i < kPoints; ++i) points.push_back(maker.next());
  std::vector<const Plan*> plans;
  for (const GpuPoint& point : points) plans.push_back(&point.plan);
  compile_plans(plans);

  int run = 0;
  for (const GpuPoint& point : points) {
    SCOPED_TRACE(point.text);
    try {
      fabric::Fabric& fabric = shared_fabric(point.plan.op.ranks);
      PlanRunner runner(point.plan, fabric, shared_compiler());
      GpuCheckOptions options;
      options.replays = 4;
      const GpuCheckResult result = check_on_gpus(runner, fabric, options);
      EXPECT_TRUE(result.verified()) << result.fault << result.first_wrong;
      EXPECT_LT(result.worst_error, 1);
      EXPECT_TRUE(result.reproducible || !point.same_bits);
      ++run;
    } catch (const UsageError& refusal) {
      EXPECT_EQ(std::string(refusal.what()).find('\n'), std::string::npos) << refusal.what();
      std::cout << "refused: " << refusal.what() << "  " << point.text << "\n";
    } catch (const std::exception& fault) {
      ADD_FAILURE() << fault.what();
    }
  }
  std::cout << run << " run, " << maker.refused << " without a kernel\n";
  EXPECT_GT(run, kPoints / 2);
}

}  // namespace
}  // namespace stretto::runtime
