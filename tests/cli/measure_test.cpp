// bench, tune, compile and auto as far as they go without a GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cli/command.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class Measure : public testing::Test {
 protected:
  static void expect_refused(const std::vector<std::string>& arguments, const std::string& why) {
    const Said said = stretto_says(arguments);
    EXPECT_EQ(said.exit_code, 2) << said.err;
    EXPECT_THAT(said.out, IsEmpty());
    EXPECT_THAT(said.err, HasSubstr(why));
  }
  std::string file(const char* name, const std::string& content) const {
    return folder_.file(name, content);
  }

  ScratchFolder folder_;
};

TEST_F(Measure, ShapesAreReadWithCommentsAndTheirErrorsNameTheLine) {
  const std::string good = "# a layer\ngemm-rs m=64 n=64 k=64\n\n";
  expect_refused({"bench", "--shapes", file("bad", good + "gemm-rs m=x n=1 k=1\n")}, "line 4: ");
  expect_refused({"bench", "--shapes", file("empty", "# nothing\n")}, "has no shape");
  expect_refused({"bench", "ag-gemm", "--shapes", file("good", good)}, "has no shape of ag-gemm");
  expect_refused({"bench", "--m", "5", "--shapes", file("good", good)},
                 "--m, --n, --k and --layer do not go with --shapes");
  expect_refused(
      {"bench", "--ranks", "0", "--shapes", file("own", "gemm-rs m=64 n=64 k=64 ranks=2\n")},
      "--ranks '0'");
  expect_refused(
      {"bench", "--dtype", "fp32", "--shapes", file("tabs", "\tgemm-rs\tm=64 n=64\tk=64 \r\n")},
      "not fp32");
  expect_refused({"bench", "--shapes", file("slip", "gemm-rs m=64 n=64 k=64 xranks=2\n")},
                 "line 1: 'xranks=2' is not one of m=, n=, k=, ranks=, dtype=\n");
  expect_refused({"bench", "--shapes",
                  file("ranks",
                       "gemm-rs m=64 n=64 k=64 ranks=2\n"
                       "gemm-rs m=64 n=64 k=64 ranks=4\n")},
                 "operators of 2 and of 4 ranks; those of one sweep");
}

// Whatever its graph: with a GPU they would be timed.
TEST_F(Measure, AnyOperatorIsTaken) {
  const std::vector<std::string> mlp = {"mlp", "m=64", "h=64", "f=128", "--ranks", "2"};
  for (const char* verb : {"bench", "tune"}) {
    expect_refused(
        std::vector<std::string>{verb} + mlp + std::vector<std::string>{"--dtype", "fp32"},
        "multiplies bf16 and fp16, not fp32");
    expect_refused({verb, "mpl"}, "unknown operator 'mpl'");
  }
  const std::string own = file("own.graph",
                               "graph own m n\ninput x [m, n] rows\ninput w [n, n] rows\n"
                               "y = gemm x w\nz = gelu y\noutput z cols\n");
  for (const char* verb : {"bench", "tune"}) {
    expect_refused({verb, own, "m=64", "n=64", "--ranks", "2", "--dtype", "fp32"},
                   "multiplies bf16 and fp16, not fp32");
  }
  std::string text =
      "graph long m n\ninput x [m, n] rows\ninput w [n, n] rows\n"
      "input v [n, n] cols\ny = gemm x w\n";
  for (int i = 0; i < 4000; ++i) text += fmt::format("y{} = gelu y{}\n", i + 1, i);
  text += "z = gemm y4000 v\noutput z rows\n";
  text.replace(text.find("y0"), 2, "y");
  expect_refused({"tune", file("long.graph", text), "m=64", "n=64", "--ranks", "2"},
                 "tuning files hold graphs of up to 32768 characters");
  expect_refused({"bench", "--shapes", file("both", "mlp m=64 h=64 f=128\nmlp m=64 n=64\n")},
                 "line 2: ");
}

TEST_F(Measure, WordsThatMeanNothingAreRefused) {
  const auto sized = [](const char* verb, std::vector<std::string> more) {
    std::vector<std::string> all = {verb, "gemm-rs", "--m", "64",      "--n",
                                    "64", "--k",     "64",  "--ranks", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_refused({"bench"}, "an operator with its sizes is missing");
  expect_refused(sized("bench", {"--strategies", "tile"}), "did you mean 'tiles'");
  expect_refused(sized("bench", {"--strategies", "tile"}), "slices, auto, all, sweep\n");
  expect_refused(sized("bench", {"--against", "tile", "--strategies", "tiles"}), "slices, auto\n");
  expect_refused(sized("bench", {"--strategies", "tiles;slices,comm=4"}), "comm");
  expect_refused(sized("bench", {"--against", "slice", "--strategies", "tiles"}),
                 "--against takes a strategy or library (cuBLAS, then NCCL): unknown strategy "
                 "'slice' (did you mean 'slices'?)");
  expect_refused(sized("bench", {"--against", "slices,tiles", "--strategies", "auto"}),
                 "--against 'slices,tiles' is 2 strategies; take one of them");
  expect_refused(sized("bench", {"--against", "all", "--strategies", "auto"}),
                 "--against 'all' is ");
  expect_refused(sized("bench", {"--rounds", "0"}), "--rounds '0'");
  expect_refused(sized("tune", {"--file", file("tuning", "{}")}), "stretto_tuning is missing");
  for (const char* verb : {"bench", "tune"}) {
    for (const std::string turn : {"-1", "0.5", "10001", "100ms"}) {
      expect_refused(sized(verb, {"--turn", turn}),
                     ("--turn '" + turn + "' is not a whole number from 0 to 10000\n").c_str());
    }
    expect_refused(sized(verb, {"--commit", std::string(201, 'c')}), "at most 200 printable");
    expect_refused(sized(verb, {"--commit", "\xff"}), "--commit '\\xff'");
  }
  const std::string kept = file("kept", R"({"stretto_tuning": 1, "operators": []})");
  expect_refused(sized("tune", {"--file", kept, "-o", kept}), "--output names the tuning file");
  expect_refused({"compile", "gemm-rs", "--m", "64", "--n", "64", "--k", "64", "--ranks", "16",
                  "--machine", "h200x8", "--strategies", "sweep"},
                 "no preset can serve this");
  expect_refused({"compile", "--arch", "sm_91"}, "unknown architecture 'sm_91'");
  expect_refused({"compile", "--strategies", "tiles"}, "--strategy needs an operator");
  expect_refused(sized("compile", {"--strategies", "tile"}), "did you mean 'tiles'");
  expect_refused(sized("compile", {"--strategies", "tile"}), "slices, auto, all, sweep\n");
  expect_refused(sized("compile", {"--serve", "--strategies", "tile"}), "slices, auto, all\n");
  expect_refused(sized("compile", {"--strategies", "tiles,mover=comm-blocks,comm-sms=0"}),
                 "comm-sms=0 cannot serve gemm-rs m=64 n=64 k=64 ranks=2 dtype=bf16: ");
  expect_refused({"compile", "--serve"}, "--serve needs an operator");
  for (const char* option : {"--m", "--n", "--k", "--ranks", "--dtype", "--machine"}) {
    expect_refused({"compile", option, "5"}, (option + std::string(" needs an operator")).c_str());
  }
  expect_refused(sized("compile", {"--serve", "--strategies", "sweep"}), "does not go with");
  expect_refused(sized("compile", {"--serve", "--strategies", "auto,tiles"}), "auto stands alone");
}

TEST_F(Measure, PlansThatNoGpuCanRunAreRefusedBeforeOneIsLookedFor) {
  const auto plan = [&](const char* dtype, int sms) {
    std::string text =
        "stretto-plan 2\noperator ag-gemm m=64 n=64 k=64 ranks=1 dtype=" + std::string(dtype) +
        "\nsms " + std::to_string(sms) + "\nbuffer a " + dtype + " 64x64 input\nbuffer b " + dtype +
        " 64x64 input\nbuffer whole " + dtype + " 64x64 local\nbuffer out " + dtype +
        " 64x64 output\nsignals full 1\n";
    text +=
        "lane 0 compute 0\n  wait full.0 >= 1\n"
        "  gemm whole[0:64,0:64] b[0:64,0:64] -> out[0:64,0:64]\n"
        "lane 0 copy 0\n  copy a[0:64,0:64] -> whole[0:64,0:64]\n  notify full.0@0 += 1\nend\n";
    return file("by-hand.plan", text);
  };
  expect_refused({"run", plan("fp32", 2), "--target", "cuda"},
                 "by-hand.plan: this plan cannot run on GPUs: the GEMM kernel multiplies bf16 and "
                 "fp16, not fp32");
  expect_refused(
      {"run", plan("bf16", 1), "--target", "cuda"},
      "by-hand.plan:10: this plan could hang on GPUs: rank 0 has 1 block lanes for 1 SMs");
  std::string late = content_of(plan("bf16", 2));
  const std::string wait = "  wait full.0 >= 1\n";
  late.insert(late.find(wait) + wait.size(), "  notify full.0@0 += 1\n");
  const std::string name = file("late.plan", late);
  expect_refused({"run", name, "--target", "cuda"},
                 "stretto: " + name +
                     ":11: this plan cannot run on GPUs: a compute lane notifies at a boundary or "
                     "after a task\n");
}

TEST_F(Measure, OperatorsThatNoGpuCanRunAreRefusedBeforeOneIsLookedFor) {
  const auto line = [](std::vector<std::string> verb, std::vector<std::string> more) {
    return verb +
           (std::vector<std::string>{"gemm-rs", "--m", "64", "--k", "64", "--ranks", "2"} + more);
  };
  const std::vector<std::string> run = {"run", "--target", "cuda"};
  const std::vector<std::string> fp32 = {"--n", "64", "--dtype", "fp32"}, odd = {"--n", "1001"};
  for (const char* verb : {"bench", "tune"}) {
    expect_refused(line({verb}, fp32), "multiplies bf16 and fp16, not fp32");
  }
  expect_refused(line(run, fp32), "tiles cannot serve this: the GEMM kernel multiplies bf16");
  expect_refused(line(run + std::vector<std::string>{"--strategy", "all"}, fp32),
                 "tiles, slices cannot serve this: the GEMM kernel multiplies bf16");
  const char* apart = "tiles cannot serve this: rows of a matrix on the GPU are a multiple of 16";
  expect_refused(line(run, odd), apart);
  expect_refused(line({"bench", "--strategies", "tiles"}, odd), apart);
  // Of several named, every one must serve.
  expect_refused(line(run + std::vector<std::string>{"--strategy", "library,tiles"}, odd), apart);
}

TEST_F(Measure, OneTimelineIsWrittenAndNotOfCublas) {
  const std::vector<std::string> line = {
      "run", "gemm-rs", "--m", "64",       "--n",  "64",         "--k",
      "64",  "--ranks", "2",   "--target", "cuda", "--perfetto", file("line", "")};
  expect_refused(line + std::vector<std::string>{"--strategy", "tiles,slices"},
                 "--perfetto writes one timeline");
  expect_refused(line + std::vector<std::string>{"--strategy", "library"},
                 "take a schedule with gemm=tiles");
}

TEST_F(Measure, KernelsAreNotCompiledToBeKeptNowhere) {
  const std::string beside = file("no-folder", "a file");
  ::setenv("STRETTO_CACHE_PATH", (beside + "/cache").c_str(), 1);
  const Said said = stretto_says({"compile"});
  ::unsetenv("STRETTO_CACHE_PATH");
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_THAT(said.err, HasSubstr("cannot write '" + beside + "/cache/probe'"));
}

TEST_F(Measure, ATuningFileThatCannotBeWrittenIsASystemFaultBeforeTheWork) {
  const std::string beside = file("no-folder", "a file");
  const std::string shapes = file("shapes", "gemm-rs m=64 n=64 k=64 ranks=2\n");
  for (const std::string& path : {beside + "/tuning.json", std::string("/proc/none/tuning.json")}) {
    const Said said = stretto_says({"tune", "--shapes", shapes, "--file", path});
    EXPECT_EQ(said.exit_code, 3);
    EXPECT_THAT(said.err, HasSubstr("'" + path + "'"));
  }
}

TEST_F(Measure, AHomeThatIsNoFolderIsNone) {
  const char* home = std::getenv("HOME");
  const std::string kept = home == nullptr ? "" : home;
  ::setenv("HOME", "/dev/null", 1);
  const Said said = stretto_says({"plan", "gemm-rs", "--m", "64", "--n", "64", "--k", "64",
                                  "--ranks", "2", "--strategy", "auto"});
  ::setenv("HOME", kept.c_str(), 1);
  EXPECT_EQ(said.exit_code, 0) << said.err;
}

TEST_F(Measure, AutoSaysWhereItComesFrom) {
  const Said said = stretto_says({"run", "gemm-rs", "--m", "64", "--n", "64", "--k", "66",
                                  "--ranks", "3", "--strategy", "auto"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("by simulation, "));
  EXPECT_THAT(said.out, HasSubstr("nothing like it"));
}

// As --strategy auto, and whatever the verb's result is, standard error says what and why.
TEST_F(Measure, AutoIsAScheduleTooAndSaysWhatItChose) {
  for (const std::string verb : {"plan", "check", "simulate"}) {
    const std::vector<std::string> line = {verb,  "gemm-rs", "--m",     "512", "--n",   "1024",
                                           "--k", "1024",    "--ranks", "2",   "--json"};
    const Said by_schedule = stretto_says(line + std::vector<std::string>{"--schedule", "auto"});
    const Said by_strategy = stretto_says(line + std::vector<std::string>{"--strategy", "auto"});
    EXPECT_EQ(by_schedule.exit_code, 0) << by_schedule.err;
    EXPECT_EQ(by_schedule.out, by_strategy.out);
    EXPECT_EQ(by_schedule.err, by_strategy.err);
    EXPECT_THAT(by_schedule.err, StartsWith("auto: "));
    EXPECT_THAT(by_schedule.err, HasSubstr("by simulation, "));
  }
}

}  // namespace
}  // namespace stretto
