// Programs as text: those of small plans, byte by byte as in golden/*.program, and what they say of
// waits as the tables of kernels have it. After a wanted change: STRETTO_UPDATE_GOLDEN=1
// test_tables --gtest_filter='ProgramListing*', then read the difference.
#include "tables/program_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "launch/plan_fixture.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "tables/plan_limits.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Golden {
  const char *name, *op, *schedule;
  friend void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }
};

constexpr const char* kGather = "ag-gemm m=40 n=64 k=16 ranks=2 dtype=bf16";
constexpr const char* kScatter = "gemm-rs m=40 n=64 k=32 ranks=2 dtype=bf16";
constexpr const char* kAllReduce = "gemm-ar m=40 n=64 k=32 ranks=2 dtype=bf16";

// Every way to make a wait or a notify, a sum and a kernel is in one of them.
constexpr Golden kGoldens[] = {
    {"ag-gemm.sequential", kGather, "sequential,tile=16x16"},
    {"ag-gemm.decomposed", kGather, "decomposed,tile=16x16,order=own-first"},
    {"ag-gemm.waves", kGather, "waves,tile=16x16,comm-sms=2,groups=1+2"},
    {"ag-gemm.tiles", kGather, "tiles,tile=16x16,comm-sms=1,order=arrival"},
    {"ag-gemm.copy-engine", kGather, "tiles,tile=16x16,mover=copy-engine,order=arrival"},
    {"ag-gemm.k-phases", "ag-gemm m=40 n=64 k=256 ranks=2 dtype=bf16",
     "tiles,tile=16x32,comm-sms=1,order=arrival,k-phases=3"},
    {"ag-gemm.library", kGather, "library,tile=16x16"},
    {"gemm-rs.two-chunk", kScatter, "two-chunk,tile=16x16,comm-sms=1"},
    {"gemm-rs.waves", kScatter, "waves,tile=16x16,comm-sms=2,groups=1+2"},
    {"gemm-rs.tiles", kScatter, "tiles,tile=16x16,comm-sms=1,order=peer-staggered"},
    {"gemm-rs.split-k", "gemm-rs m=40 n=24 k=320 ranks=2 dtype=bf16",
     "tiles,tile=16x16,comm-sms=0,order=interleaved,split-k=2"},
    {"gemm-rs.ack", kScatter,
     "tiles,tile=16x16,mover=comm-blocks,comm-sms=1,order=peer-staggered,reuse=ack"},
    {"gemm-ar.slices", kAllReduce, "slices,tile=8x16,comm-sms=0,order=plain"},
    {"gemm-ar.low-latency", kAllReduce, "low-latency,tile=16x16"},
    {"mlp.few-rows", "mlp m=12 h=64 f=96 ranks=2 dtype=bf16", "few-rows,tile=16x64"},
    {"mlp.tiles", "mlp m=40 h=64 f=96 ranks=2 dtype=bf16", "tiles,tile=16x64,comm-sms=1"},
    {"mlp.library-down", "mlp m=40 h=64 f=96 ranks=2 dtype=bf16",
     "tiles,tile=16x64,comm-sms=1/down:library,tile=16x16,algorithm=3"},
    {"gemm-ar-norm.tiles", "gemm-ar-norm m=40 n=64 k=32 ranks=2 dtype=bf16", "tiles,tile=16x16"},
    {"gemm-ar-norm.waves", "gemm-ar-norm m=20 n=40 k=16 ranks=2 dtype=bf16",
     "waves,tile=16x16,comm-sms=2"},
    {"mlp.split", "mlp m=40 h=64 f=96 ranks=2 dtype=bf16", "split=2/tiles,tile=16x64,comm-sms=1"},
    {"gemm-rs-norm-ag.tiles", "gemm-rs-norm-ag m=40 n=64 k=32 ranks=2 dtype=bf16",
     "tiles,tile=16x16"},
    {"gemm-a2a.tiles", "gemm-a2a m=40 n=64 k=16 ranks=2 dtype=bf16", "tiles,tile=16x16"},
    {"a2a-gemm.tiles", "a2a-gemm m=40 n=32 k=64 ranks=2 dtype=bf16", "tiles,tile=16x16"},
    {"a2a-gemm.k-phases", "a2a-gemm m=40 n=32 k=128 ranks=2 dtype=bf16", "tiles,tile=16x16"},
    {"layer.tiles", "layer m=24 h=64 f=96 heads=4 kv-heads=2 head-dim=16 ranks=2 dtype=bf16",
     "tiles,tile=16x64,comm-sms=1"},
    {"moe-ep.library", "moe-ep t=20 h=72 f=80 experts=3 k=2 ranks=1 dtype=bf16",
     "library,tile=16x32"},
    // As `auto` takes layers of experts of few tokens, up to tiles: low-latency is with a library.
    {"moe-ep.low-latency", "moe-ep t=20 h=72 f=80 experts=3 k=2 ranks=2 dtype=bf16",
     "low-latency,tile=16x32"},
    {"moe-tp.low-latency", "moe-tp t=20 h=72 f=144 experts=3 k=2 ranks=2 dtype=bf16",
     "low-latency,tile=16x32"},
    {"moe-tp-up.low-latency", "moe-tp-up t=20 h=72 f=144 experts=3 k=2 ranks=2 dtype=bf16",
     "low-latency,tile=16x32"},
    {"dispatch-combine.low-latency", "dispatch-combine t=20 h=72 experts=3 k=2 ranks=2 dtype=bf16",
     "low-latency,tile=16x32"},
    {"embedding-a2a.slices",
     "embedding-a2a bags=35 tables=4 rows=9 dim=8 pool=2 ranks=2 dtype=bf16", "slices,tile=8x16"},
    {"embedding-a2a.decomposed",
     "embedding-a2a bags=35 tables=4 rows=9 dim=8 pool=2 ranks=2 dtype=bf16",
     "decomposed,tile=8x16"},
};

const std::string kFolder = STRETTO_TEST_DIR "/golden";

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Plan plan_of(const Golden& golden) {
  const Operator op = parse_operator(golden.op);
  Machine machine = default_machine(8);
  machine.sms = 4;
  machine.nccl_sms = 2;
  return lower(op, parse_schedules(golden.schedule, op, machine), machine);
}

class ProgramListings : public testing::TestWithParam<Golden> {
 protected:
  const Plan plan_ = plan_of(GetParam());
  const std::vector<RankProgram> programs_ = programs_of(plan_);
};

TEST_P(ProgramListings, AreUnchangedAndParseBack) {
  ASSERT_THAT(why_not_on_cuda(plan_), IsEmpty());
  const ProgramListing listing = list_programs(plan_, programs_);
  const std::string text = print(listing);
  EXPECT_EQ(parse_listing(text), listing);
  EXPECT_EQ(print(parse_listing(text)), text);
  const std::string path = kFolder + "/" + GetParam().name + ".program";
  if (std::getenv("STRETTO_UPDATE_GOLDEN")) {
    std::ofstream(path, std::ios::binary) << text;
    GTEST_SKIP() << "wrote " << path;
  }
  EXPECT_EQ(text, read(path)) << path;
}

struct Counts {
  size_t waits = 0, late_waits = 0, end_waits = 0, notifies = 0, tasks = 0;
  bool operator==(const Counts&) const = default;
  friend void PrintTo(const Counts& c, std::ostream* out) {
    *out << c.tasks << " tasks, " << c.waits << " waits, " << c.late_waits << " late, "
         << c.end_waits << " at ends, " << c.notifies << " notifies";
  }
};

Counts listed(const std::vector<ListedKernel>& kernels) {
  Counts counts;
  for (const ListedKernel& kernel : kernels) {
    for (const ListedBlock& block : kernel.blocks) {
      for (const ListedBlock::Line& line : block.lines) {
        const BlockWord word = line.word;
        counts.tasks += word == BlockWord::task || word == BlockWord::part ||
                        (word == BlockWord::move && line.instr.text.rfind("deliver", 0) != 0);
        counts.waits += word == BlockWord::wait || word == BlockWord::move_wait;
        counts.late_waits += word == BlockWord::late_wait;
        counts.end_waits += word == BlockWord::end_wait;
        counts.notifies += word == BlockWord::notify;
      }
    }
  }
  return counts;
}

Counts in_tables(const std::vector<GemmLaunch>& launches) {
  Counts counts;
  for (const GemmLaunch& launch : launches) {
    for (size_t block = 0; block < launch.table.blocks.size(); ++block) {
      uint32_t last = UINT32_MAX;  // tiles with several regions of A are a task for each
      for (size_t i = 0; i < launch.table.blocks[block].size(); ++i) {
        const device::GemmTask& task = launch.table.blocks[block][i];
        counts.tasks += launch.positions[block][i] != last;
        last = launch.positions[block][i];
        counts.waits += task.num_waits;
        counts.late_waits += task.num_late_waits;
        counts.notifies += task.num_notifies;
      }
    }
    for (const auto& waits : launch.table.end_waits) counts.end_waits += waits.size();
  }
  return counts;
}

Counts in_tables(const std::vector<MoverTable>& tables) {
  Counts counts;
  for (const MoverTable& table : tables) {
    for (const auto& block : table.blocks) {
      for (const device::MoverTask& task : block) {
        counts.tasks += task.num_sources != 0;
        (task.tile == device::kAtEnd ? counts.end_waits : counts.waits) += task.num_waits;
        counts.notifies += task.num_notifies;
      }
    }
  }
  return counts;
}

// A sum of the rank's part makes the late waits of its own task.
TEST_P(ProgramListings, SayWhatTablesHave) {
  const SignalLayout signals(plan_, programs_, true);
  const ProgramListing listing = list_programs(plan_, programs_);
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    const auto r = static_cast<size_t>(rank);
    const RankTables tables = tables_for(plan_, rank, programs_[r], places_of(plan_), signals);
    EXPECT_EQ(listed(listing.ranks[r].gemms), in_tables(tables.gemms)) << rank;
    EXPECT_EQ(listed(listing.ranks[r].moves), in_tables(tables.moves)) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, ProgramListings, testing::ValuesIn(kGoldens),
                         [](const auto& test) {
                           std::string name = test.param.name;
                           for (char& c : name) {
                             if (c == '-' || c == '.') c = '_';
                           }
                           return name;
                         });

TEST(ProgramListing, EveryWordIsInSomeGoldenAndEveryGoldenIsTested) {
  std::vector<std::string> tested, there;
  for (const Golden& golden : kGoldens) tested.push_back(golden.name);
  std::string all;
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
    there.push_back(file.path().stem().string());
    all += read(file.path().string());
  }
  EXPECT_THAT(there, testing::UnorderedElementsAreArray(tested));
  const std::regex words("\\n +(?:[0-9]+ )?([a-z-]+) ");
  std::set<std::string> found;
  for (std::sregex_iterator it(all.begin(), all.end(), words), end; it != end; ++it) {
    found.insert((*it)[1]);
  }
#define STRETTO_WORD(name, text, meaning) EXPECT_EQ(found.count(text), 1u) << text;
  STRETTO_BLOCK_WORDS(STRETTO_WORD)
  STRETTO_STEP_WORDS(STRETTO_WORD)
#undef STRETTO_WORD
}

// The example of a page: what stands between its first fences.
std::string example_of(const std::string& page) {
  const std::string text = read(STRETTO_TEST_DIR "/../../docs/" + page);
  const std::string fence = "```\n";
  const size_t begin = text.find(fence) + fence.size();
  return text.substr(begin, text.find(fence, begin) - begin);
}

TEST(ProgramListing, ThePageShowsTheProgramOfThePlanOfItsPage) {
  const Plan plan = parse_plan(example_of("plan-format.md"));
  EXPECT_EQ(print(list_programs(plan, programs_of(plan))), example_of("program-format.md"));
}

TEST(ProgramListing, WrongTextsAreRefusedWithTheirPlace) {
  struct Case {
    const char *text, *says;
  };
  const std::string head = "stretto-program 1\noperator x\n";
  for (const auto& [text, says] : std::initializer_list<Case>{
           {"rank 1\nend\n", "p:3:6: expected the next rank"},
           {"rank 0\nkernel copy 0 x\nend\n", "p:4:8: expected 'gemm' or 'move', found 'copy'"},
           {"rank 0\nkernel gemm 0 x\n  block compute 0\n    tusk compute.0.1 x\nend\n",
            "p:6:5: expected what a block does, found 'tusk'"},
           {"rank 0\nkernel gemm 0 x\n  block compute 0\n    task cmpute.0.1 x\nend\n",
            "p:6:10: expected an instruction's place, found 'cmpute.0.1'"},
           {"rank 0\nstream 0 compute 0\n  1 gemm 0\nend\n",
            "p:5:3: expected one of the rank's streams"},
           {"rank 0\nstream 0 compute 0\n  0 jump 0\nend\n", "p:5:5: expected a step"},
           {"rank 0\n", "expected 'kernel', 'stream', 'rank' or 'end'"},
           {"end\nmore\n", "p:4:1: expected nothing after 'end'"},
       }) {
    try {
      parse_listing(head + text, "p");
      ADD_FAILURE() << "took " << text;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(says));
    }
  }
}

}  // namespace
}  // namespace stretto::cuda
