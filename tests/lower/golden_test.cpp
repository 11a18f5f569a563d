// Plans of every preset for small shapes, byte by byte as in golden/*.plan. After a wanted change:
// STRETTO_UPDATE_GOLDEN=1 test_lower --gtest_filter='*Golden*', then read the difference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lower/drafts.h"

namespace stretto {
namespace {

struct Golden {
  const char* name;
  const char* op;
  const char* schedule;
  const char* graph = nullptr;  // of an operator that is not shipped
};

constexpr const char* kGather = "ag-gemm m=40 n=64 k=8 ranks=2 dtype=bf16";
constexpr const char* kScatter = "gemm-rs m=40 n=40 k=8 ranks=2 dtype=bf16";
constexpr const char* kAllReduce = "gemm-ar m=40 n=40 k=8 ranks=2 dtype=bf16";

constexpr const char* kToHeads = "gemm-a2a m=35 n=64 k=8 ranks=2 dtype=bf16";
constexpr const char* kUnevenHeads = "gemm-a2a m=7 n=20 k=8 ranks=3 dtype=bf16";
constexpr const char* kUnevenTokens = "a2a-gemm m=7 n=8 k=20 ranks=3 dtype=bf16";
constexpr const char* kToTokens = "a2a-gemm m=35 n=32 k=16 ranks=2 dtype=bf16";

constexpr const char* kMlp = "mlp m=20 h=16 f=32 ranks=2 dtype=bf16";
constexpr const char* kNormed = "gemm-ar-norm m=20 n=16 k=16 ranks=2 dtype=bf16";
constexpr const char* kRestored = "gemm-ar-norm m=20 n=40 k=16 ranks=2 dtype=bf16";
constexpr const char* kSharedExperts = "moe-tp t=5 h=16 f=16 experts=2 k=2 ranks=2 dtype=bf16";
constexpr const char* kDealtExperts = "moe-ep t=5 h=16 f=16 experts=2 k=2 ranks=2 dtype=bf16";
constexpr const char* kMoved = "dispatch-combine t=5 h=16 experts=2 k=2 ranks=2 dtype=bf16";
constexpr const char* kUnevenTables =
    "embedding-a2a bags=7 tables=3 rows=5 dim=4 pool=2 ranks=2 dtype=bf16";

constexpr const char* kByKernel =
    "graph by-kernel m n k\n"
    "kernel ring_sum all-reduce \"ring_sum.h\" slots=2*ranks signals=16\n"
    "input x [m, k] cols\n"
    "input w [n, k] cols\n"
    "y = gemm x w\n"
    "output y whole\n";

// Whatever a preset may choose by the machine is given, so that only its idea is its own.
constexpr Golden kGoldens[] = {
    {"ag-gemm.sequential", kGather, "sequential,tile=16x16"},
    {"ag-gemm.two-chunk", kGather, "two-chunk,tile=16x16,comm-sms=1"},
    {"ag-gemm.decomposed", kGather, "decomposed,tile=16x16,order=own-first"},
    {"ag-gemm.waves", kGather, "waves,tile=16x16,comm-sms=2,groups=1+2"},
    {"ag-gemm.tiles", kGather, "tiles,tile=16x16,comm-sms=1,order=arrival"},
    {"ag-gemm.slices", kGather, "slices,tile=8x16,comm-sms=1,order=own-first"},
    {"gemm-rs.sequential", kScatter, "sequential,tile=16x16"},
    {"gemm-rs.two-chunk", kScatter, "two-chunk,tile=16x16,comm-sms=1"},
    {"gemm-rs.decomposed", kScatter, "decomposed,tile=16x16,order=peer-staggered"},
    {"gemm-rs.waves", kScatter, "waves,tile=16x16,comm-sms=2,groups=1+2"},
    {"gemm-rs.tiles", kScatter, "tiles,tile=16x16,comm-sms=1,order=peer-staggered"},
    {"gemm-rs.slices", kScatter, "slices,tile=8x16,comm-sms=0,order=peer-staggered"},
    {"gemm-ar.sequential", kAllReduce, "sequential,tile=16x16"},
    {"gemm-ar.two-chunk", kAllReduce, "two-chunk,tile=16x16,comm-sms=1"},
    {"gemm-ar.decomposed", kAllReduce, "decomposed,tile=16x16,order=peer-staggered"},
    {"gemm-ar.waves", kAllReduce, "waves,tile=16x16,comm-sms=2,groups=1+2"},
    {"gemm-ar.tiles", kAllReduce, "tiles,tile=16x16,comm-sms=1,order=plain"},
    {"gemm-ar.slices", kAllReduce, "slices,tile=8x16,comm-sms=0,order=plain"},
    {"gemm-ar.one-shot", kAllReduce,
     "tiles,tile=16x16,comm-sms=1,order=peer-staggered,reduction=one-shot"},
    {"gemm-a2a.tiles", kToHeads, "tiles,tile=16x16,comm-sms=1,order=interleaved"},
    {"gemm-a2a.uneven", kUnevenHeads, "tiles,tile=16x16"},
    {"gemm-a2a.uneven-sequential", kUnevenHeads, "sequential,tile=16x16"},
    {"a2a-gemm.uneven", kUnevenTokens, "tiles,tile=16x16,comm-sms=1"},
    {"gemm-a2a.sequential", kToHeads, "sequential,tile=16x16"},
    {"gemm-a2a.library", kToHeads, "library,tile=16x16"},
    {"a2a-gemm.sequential", kToTokens, "sequential,tile=16x16"},
    {"gemm-a2a.two-chunk", kToHeads, "two-chunk,tile=16x16,comm-sms=1"},
    {"gemm-a2a.library-chunks", kToHeads, "two-chunk,tile=16x16,comm-sms=0,gemm=library"},
    {"a2a-gemm.two-chunk", kToTokens, "two-chunk,tile=16x16,comm-sms=1"},
    {"gemm-a2a.decomposed", kToHeads, "decomposed,tile=16x16,order=peer-staggered"},
    {"a2a-gemm.tiles", kToTokens, "tiles,tile=16x16,comm-sms=1,order=arrival"},
    {"a2a-gemm.k-phases", "a2a-gemm m=35 n=32 k=128 ranks=2 dtype=bf16",
     "tiles,tile=16x16,comm-sms=1,order=arrival,k-phases=2"},
    {"a2a-gemm.decomposed", kToTokens, "decomposed,tile=16x16,order=arrival"},
    {"gemm-rs.split-k", "gemm-rs m=40 n=24 k=300 ranks=2 dtype=bf16",
     "tiles,tile=16x16,comm-sms=0,order=interleaved,split-k=2"},
    {"ag-gemm.k-phases", "ag-gemm m=40 n=64 k=200 ranks=2 dtype=bf16",
     "tiles,tile=16x32,comm-sms=1,order=arrival,k-phases=3"},
    {"gemm-rs.added", "gemm-rs m=36 n=24 k=128 ranks=2 dtype=bf16",
     "tiles,tile=16x16,comm-sms=0,order=peer-staggered"},
    {"gemm-rs.ack", kScatter,
     "tiles,tile=16x16,mover=comm-blocks,comm-sms=1,order=peer-staggered,reuse=ack"},
    {"mlp.tiles", kMlp,
     "tiles,tile=16x16,comm-sms=1,order=own-first/"
     "down:tiles,tile=16x16,comm-sms=1,order=peer-staggered"},
    {"mlp.split", kMlp, "split=2/sequential,tile=16x16"},
    {"gemm-ar-norm.tiles", kNormed, "tiles,tile=16x16,comm-sms=1,order=plain"},
    {"gemm-ar-norm.low-latency", kNormed, "low-latency,tile=16x16"},
    {"gemm-ar-norm.waves", kRestored, "waves,tile=16x16,comm-sms=2,groups=1+1+1"},
    {"gemm-rs-norm.waves", "gemm-rs-norm m=20 n=40 k=16 ranks=2 dtype=bf16",
     "waves,tile=16x16,comm-sms=2,groups=1+1+1"},
    {"gemm-ar-norm.few-rows", kNormed, "few-rows,tile=16x16"},
    {"moe-tp.sequential", kSharedExperts, "sequential,tile=8x16"},
    {"moe-tp.tiles", kSharedExperts, "tiles,tile=8x16,comm-sms=1,granularity=chunk"},
    {"moe-tp.sources-in-turn", kSharedExperts,
     "library,mover=copy-engine,granularity=chunk,tile=8x16,gemm=tiles/y:library,mover=copy-engine,"
     "granularity=chunk,reduction=slots,tile=8x16,gemm=tiles"},
    {"moe-ep.sequential", kDealtExperts, "sequential,tile=8x16"},
    {"moe-ep.tiles", kDealtExperts, "tiles,tile=8x16,comm-sms=1,granularity=whole"},
    {"moe-ep.by-source", kDealtExperts, "tiles,tile=8x16,comm-sms=1,granularity=chunk"},
    {"moe-ep.low-latency", kDealtExperts, "low-latency,tile=8x16,gemm=tiles"},
    {"dispatch-combine.low-latency", kMoved, "low-latency,tile=8x16"},
    {"dispatch-combine.tiles", kMoved, "tiles,tile=8x16,comm-sms=1,granularity=chunk"},
    {"embedding-a2a.uneven", kUnevenTables, "tiles,tile=8x16"},
    {"embedding-a2a.uneven-sequential", kUnevenTables, "sequential,tile=8x16"},
    {"embedding-a2a.split", kUnevenTables, "split=2/sequential,tile=8x16"},
    {"moe-tp-up.split", "moe-tp-up t=11 h=16 f=16 experts=3 k=2 ranks=2 dtype=bf16",
     "split=2/tiles,tile=8x16,comm-sms=1"},
    {"moe-tp-up.low-latency", "moe-tp-up t=11 h=16 f=16 experts=3 k=2 ranks=2 dtype=bf16",
     "low-latency,tile=8x16,gemm=tiles"},
    {"by-kernel.sequential", "by-kernel m=40 n=40 k=16 ranks=2 dtype=bf16",
     "sequential,tile=16x16,kernel=ring_sum", kByKernel},
};

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class GoldenPlan : public testing::TestWithParam<Golden> {};

TEST_P(GoldenPlan, IsUnchanged) {
  const Golden& golden = GetParam();
  const Operator op =
      parse_operator(golden.op, {}, golden.graph != nullptr ? parse_graph(golden.graph) : nullptr);
  const Machine machine = small_machine(op.ranks, 4);
  const std::string text = print(lower(op, parse_schedules(golden.schedule, op, machine), machine));
  const std::string path =
      std::string(STRETTO_TEST_DIR) + "/golden/" + std::string(golden.name) + ".plan";
  if (std::getenv("STRETTO_UPDATE_GOLDEN")) {
    std::ofstream(path, std::ios::binary) << text;
    GTEST_SKIP() << "wrote " << path;
  }
  const std::string expected = read(path);
  ASSERT_FALSE(expected.empty()) << "cannot read " << path;
  std::istringstream got(text), want(expected);
  std::string got_line, want_line;
  for (int line = 1; std::getline(want, want_line); ++line) {
    ASSERT_TRUE(std::getline(got, got_line)) << path << ":" << line << " is missing";
    ASSERT_EQ(got_line, want_line) << path << ":" << line;
  }
  EXPECT_EQ(text, expected);
}

std::string golden_name(const testing::TestParamInfo<Golden>& test) {
  std::string name = test.param.name;
  for (char& c : name) {
    if (c == '-' || c == '.') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Lower, GoldenPlan, testing::ValuesIn(kGoldens), golden_name);

TEST(GoldenFiles, AreAllTested) {
  std::vector<std::string> tested;
  for (const Golden& golden : kGoldens) tested.push_back(std::string(golden.name) + ".plan");
  for (const auto& file :
       std::filesystem::directory_iterator(std::string(STRETTO_TEST_DIR) + "/golden")) {
    const std::string name = file.path().filename().string();
    EXPECT_NE(std::find(tested.begin(), tested.end(), name), tested.end()) << name;
  }
}

}  // namespace
}  // namespace stretto
