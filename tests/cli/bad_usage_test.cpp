// Every bad command line is answered with exit code 2, nothing on standard output, and one line
// that names what is wrong and what would be right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/command.h"

namespace stretto {
namespace {

struct Case {
  const char* name;
  std::vector<std::string> arguments;
  std::vector<std::string> expected;  // parts of the one line
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

std::vector<std::string> sized(const char* op, const char* m, const char* n, const char* k,
                               const char* ranks = "4") {
  return {"run", op, "--m", m, "--n", n, "--k", k, "--ranks", ranks};
}

std::vector<Case> cases() {
  const auto small = small_operator();
  const std::vector<std::string> run = {"run"}, plan = {"plan"}, simulate = {"simulate"};
  return {
      {"NoVerb", {}, {"a verb is missing", "Prove: run, check", "stretto help"}},
      {"UnknownVerb",
       {"simulat"},
       {"unknown verb 'simulat': did you mean 'simulate'?", "stretto help"}},
      {"OptionBeforeTheVerb",
       {"--json", "run"},
       {"'--json' stands before the verb", "stretto run '--json'"}},
      {"NoSubject", {"run"}, {"operator", "plan file", "stretto run gemm-rs"}},
      {"UnknownOption", run + small + std::vector<std::string>{"--fast"}, {"--fast", "--help"}},
      {"SlipInAnOption",
       {"run", "gemm-rs", "--rank", "2"},
       {"unknown option '--rank': did you mean '--ranks'", "run --help"}},
      {"OptionOfOneDash",
       {"run", "gemm-rs", "-m", "64"},
       {"unknown option '-m': did you mean '--m'"}},
      {"WordsTooMany",
       {"run", "gemm-rs", "one", "two"},
       {"'one' is no size of gemm-rs", "give m=VALUE, n=VALUE, k=VALUE"}},
      {"RoutingOfARouter",
       {"bench", "moe-ep-router", "t=8", "h=16", "f=16", "experts=4", "k=2", "--ranks", "1",
        "--routing", "zipf"},
       {"--routing says which experts rows choose: of moe-ep-router scores choose them"}},
      {"RoutingOfAProduct",
       {"bench", "gemm-rs", "64x64x64@1", "--routing", "zipf"},
       {"--routing says which experts rows choose: of gemm-rs no row chooses any"}},
      {"MissingValue", {"run", "gemm-rs", "--m"}, {"--m", "--help"}},
      {"OptionTwice",
       run + small + std::vector<std::string>{"--m", "5"},
       {"--m is given 2 times; give it once"}},
      {"OutputAndPerfettoInOneFile",
       simulate + small + std::vector<std::string>{"--perfetto", "/tmp/one", "-o", "/tmp/one"},
       {"--output and --perfetto name one file"}},
      {"OutputAndPerfettoInOneFileByTwoNames",
       simulate + small + std::vector<std::string>{"--perfetto", "/tmp/one", "-o", "/tmp/./one"},
       {"--output and --perfetto name one file"}},
      {"PerfettoToStandardOutput",
       simulate + small + std::vector<std::string>{"--perfetto", "-"},
       {"--perfetto writes a file", "-o"}},
      {"LaunchHasNoResultToWrite",
       {"launch", "--json", "-n", "2", "--", "true"},
       {"--json", "launch --help"}},
      {"EmptyOutput", {"strategies", "-o", ""}, {"--output is empty", "leave it out"}},
      {"EmptySize", sized("gemm-rs", "64", "", "64"), {"--n is empty", "give a value"}},
      {"UnknownOperator",
       sized("gem-rs", "64", "64", "64"),
       {"unknown operator 'gem-rs': did you mean 'gemm-rs', ", "plan file"}},
      {"BeginOfAnOption",
       {"run", "gemm-rs", "--strat", "all"},
       {"unknown option '--strat': did you mean '--strategy' or "}},
      {"WordLikeNoOption",
       {"run", "gemm-rs", "--xyzzy"},
       {"unknown option '--xyzzy'; nearest: --", "run --help"}},
      {"HelpOfNoVerb", {"help", "simulat"}, {"unknown verb 'simulat'"}},
      {"NoShell", {"completions"}, {"completions needs a shell", "bash"}},
      {"UnknownShell", {"completions", "tcsh"}, {"unknown shell 'tcsh'", "bash, zsh, fish"}},
      {"UnknownColour",
       simulate + small + std::vector<std::string>{"--color", "maybe"},
       {"'maybe'", "auto, always, never"}},
      {"SizesTooFew", {"plan", "gemm-rs", "64x64"}, {"'64x64' is no size of gemm-rs", "mxnxk"}},
      {"SizesTwice", {"plan", "gemm-rs", "64x64x64", "--m", "64"}, {"m is given twice"}},
      {"RanksTwice", {"plan", "gemm-rs", "64x64x64@2", "--ranks", "2"}, {"ranks are given twice"}},
      {"ServeWithoutWorkspace",
       plan + small + std::vector<std::string>{"--serve"},
       {"--serve looks at the plans of an operation, for --workspace"}},
      {"WorkspaceOfAProgram",
       plan + small + std::vector<std::string>{"--workspace", "--program"},
       {"--workspace needs a whole plan"}},
      {"ServedWorkspaceOfAStrategy",
       plan + small + std::vector<std::string>{"--workspace", "--serve", "--strategy", "tiles"},
       {"leave --strategy out"}},
      {"LayerOfNoModel",
       {"plan", "gemm-rs", "--layer", "lama-3-70b:down", "--m", "64"},
       {"unknown model 'lama-3-70b'", "did you mean 'llama-3-70b'"}},
      {"LayerWithoutALinear",
       {"plan", "gemm-rs", "--layer", "llama-3-70b", "--m", "64"},
       {"'llama-3-70b' is not MODEL:LINEAR"}},
      {"LayerOfAnotherCut",
       {"plan", "gemm-rs", "--layer", "llama-3-70b:qkv", "--m", "64"},
       {"qkv of llama-3-70b is cut by outputs", "ag-gemm"}},
      {"HelpAsAnOperator", {"simulate", "help"}, {"'help' is no operator", "stretto help VERB"}},
      {"LayerThatRanksCannotShare",
       {"plan", "--layer", "llama-3-70b:qkv", "--m", "66", "--ranks", "3"},
       {"--layer llama-3-70b:qkv", "64 heads are no multiple of 3 ranks"}},
      {"PlanFileThatIsNotThere",
       {"check", "./absent.plan"},
       {"there is no plan file './absent.plan'", "stretto plan"}},
      {"SizesMissing",
       {"run", "gemm-rs", "--m", "64"},
       {"needs its sizes: --n, --k missing", "--k 4096"}},
      {"MoreRowsThanPlanned",
       {"run", "gemm-rs", "--m", "64", "--rows", "65", "--n", "64", "--k", "64"},
       {"--rows '65'", "from 1 to 64"}},
      {"RowsOfACollective",
       {"run", "gemm-rs", "--m", "64", "--rows", "8", "--n", "64", "--k", "64", "--strategy",
        "sequential"},
       {"rows=bucket with mover=nccl", "take rows=fixed or mover=epilogue"}},
      {"ZeroRows", sized("gemm-rs", "0", "64", "64"), {"--m '0'", "from 1 to"}},
      {"NegativeColumns", sized("gemm-rs", "64", "-64", "64"), {"--n '-64'", "from 1 to"}},
      {"NotANumber", sized("gemm-rs", "64", "64", "4q"), {"--k '4q'", "whole number"}},
      {"UnitOverflows", sized("gemm-rs", "64", "64", "999999999999M"), {"--k", "whole number"}},
      {"SizeOverflows",
       sized("gemm-rs", "99999999999999999999", "64", "64"),
       {"--m '99999999999999999999'", "from 1 to"}},
      {"TensorOverflows", sized("gemm-rs", "1073741824", "1073741824", "64"), {"1073741824"}},
      {"ZeroRanks", sized("gemm-rs", "64", "64", "64", "0"), {"--ranks '0'", "from 1 to"}},
      {"TooManyRanks", sized("gemm-rs", "64", "64", "64", "100000"), {"--ranks '100000'"}},
      {"ShardedKDoesNotDivide", sized("gemm-rs", "64", "64", "66"), {"66", "4"}},
      {"ShardedNDoesNotDivide", sized("ag-gemm", "64", "66", "64"), {"66", "4"}},
      {"UnknownDType",
       run + small + std::vector<std::string>{"--dtype", "fp8"},
       {"unknown dtype 'fp8'", "bf16, fp16, fp32"}},
      {"UnknownStrategy",
       run + small + std::vector<std::string>{"--strategy", "tile"},
       {"'tile'", "did you mean 'tiles'", "sequential", "slices, auto, all, sweep\n"}},
      {"SweepInAList",
       run + small + std::vector<std::string>{"--strategy", "sweep,tiles"},
       {"sweep stands alone: it is every schedule that tune measures"}},
      {"SweepOfServedRows",
       run + small + std::vector<std::string>{"--strategy", "sweep", "--rows", "3"},
       {"sweep is what tune measures, plans of fixed rows: name schedules"}},
      {"UnknownStrategyInAList",
       run + small + std::vector<std::string>{"--strategy", "tiles,al"},
       {"unknown strategy 'al'", "slices, auto\n"}},
      {"UnknownSchedule",
       run + small + std::vector<std::string>{"--schedule", "atuo"},
       {"unknown strategy 'atuo' (did you mean 'auto'?)", "slices, auto\n"}},
      {"UnknownPresetOfASchedule",
       run + small + std::vector<std::string>{"--schedule", "atuo,tile=64x128"},
       {"unknown strategy 'atuo'; known: ", "slices\n"}},
      {"EmptyNameInAList",
       run + small + std::vector<std::string>{"--strategy", "tiles,"},
       {"list of strategies 'tiles,' has an empty name"}},
      {"AllBesideOthers",
       run + small + std::vector<std::string>{"--strategy", "all,auto"},
       {"all stands alone"}},
      {"ChangedAuto",
       run + small + std::vector<std::string>{"--schedule", "auto,tile=64x64"},
       {"'auto,tile=64x64'", "auto stands alone", "stretto plan --schedule auto"}},
      {"UnknownMachine",
       run + small + std::vector<std::string>{"--machine", "h200x9"},
       {"h200x9", "h200x8"}},
      {"UnknownTarget",
       run + small + std::vector<std::string>{"--target", "gpu"},
       {"unknown target 'gpu'; known: emu, cuda"}},
      {"UnknownFill",
       run + small + std::vector<std::string>{"--fill", "zeros"},
       {"unknown fill 'zeros'", "integers, random, specials, subnormals"}},
      {"ZeroSeeds",
       run + small + std::vector<std::string>{"--seeds", "0"},
       {"--seeds '0'", "from 1 to"}},
      {"ZeroRuns", run + small + std::vector<std::string>{"--runs", "0"}, {"--runs '0'"}},
      {"NegativeSeed", run + small + std::vector<std::string>{"--seed", "-1"}, {"--seed '-1'"}},
      {"StrategyAndSchedule",
       run + small + std::vector<std::string>{"--strategy", "tiles", "--schedule", "waves"},
       {"exclude each other"}},
      {"UnknownCoordinate",
       run + small + std::vector<std::string>{"--schedule", "tiles,colour=3"},
       {"colour"}},
      {"AllBadPartsOfAScheduleAtOnce",
       run + small + std::vector<std::string>{"--schedule", "tiles,colour=3,mover=ox,tile=7"},
       {"colour", "ox", "7"}},
      {"SeveralReasonsOfOneSchedule",
       run + small + std::vector<std::string>{"--schedule", "tiles,tile=0x7"},
       {"schedule cannot serve this: a tile of 0 rows; it must be a multiple of 8 from 8 to 512; a "
        "tile of 7 columns"}},
      {"MoreSmsThanTheMachineHas",
       run + small + std::vector<std::string>{"--schedule", "tiles,comm-sms=500"},
       {"500", "132"}},
      {"IllegalCombinationWithAllReasons",
       run + small + std::vector<std::string>{"--schedule", "tiles,mover=nccl,reduction=one-shot"},
       {"nccl", "one-shot"}},
      {"MachineTooSmall",
       {"simulate", "gemm-rs", "--m", "64", "--n", "64", "--k", "64", "--ranks", "16", "--machine",
        "h200x8"},
       {"16", "8"}},
      {"PlanOfAllStrategies",
       plan + small + std::vector<std::string>{"--strategy", "all"},
       {"one plan", "--strategy tiles"}},
      {"UnknownStep",
       plan + small + std::vector<std::string>{"--dump-after", "place_signal"},
       {"unknown step", "did you mean 'place_signals'"}},
      {"StepOfARun",
       plan + small + std::vector<std::string>{"--dump-after", "emit_tasks", "--rows", "5"},
       {"--rows", "--dump-after", "rows=bucket in --schedule"}},
      {"ProgramOfAStep",
       plan + small + std::vector<std::string>{"--program", "--dump-after", "emit_tasks"},
       {"--program", "--dump-after", "leave one out"}},
      {"ProgramOfNoGpu",
       plan + small + std::vector<std::string>{"--program", "--dtype", "fp32"},
       {"GPUs cannot run this plan", "dtype=bf16"}},
      {"ReportOnTheScreen",
       std::vector<std::string>{"report"} + small,
       {"a report is a file", "-o report.html"}},
      {"ReportOfTwoKinds",
       std::vector<std::string>{"report", "--svg", "--json"} + small,
       {"--svg and --json", "leave one out"}},
      {"ReportOfNoTrace",
       std::vector<std::string>{"report", "-o", "/dev/null", "--measured", "/dev/null"} + small,
       {"/dev/null", "it is no trace", "--perfetto FILE"}},
      {"UnknownKernel",
       {"explore", "all_too_all"},
       {"unknown kernel", "did you mean 'all_to_all'"}},
      {"NoSeeds", {"explore", "all_to_all", "--seeds", "0"}, {"--seeds '0'", "from 1 to"}},
      {"SeedsOfNoKernel", {"explore", "--seeds", "5"}, {"--seeds needs a kernel"}},
      {"OneRankAlone", {"explore", "all_to_all", "--ranks", "1"}, {"--ranks '1'", "from 2 to 64"}},
      {"ThreadsThatAreNoWarps",
       {"explore", "all_to_all", "--threads", "6"},
       {"6 threads are not whole warps of 4: take 4"}},
      {"TooManyThreadsInAll",
       {"explore", "all_to_all", "--ranks", "64", "--blocks", "1024", "--threads", "1024"},
       {"32768 threads in all"}},
      {"WidthOutOfRange",
       simulate + small + std::vector<std::string>{"--width", "3"},
       {"--width '3'", "40"}},
  };
}

class BadUsage : public testing::TestWithParam<Case> {};

TEST_P(BadUsage, IsAnsweredInOneLine) {
  const Said said = stretto_says(GetParam().arguments);
  EXPECT_EQ(said.exit_code, 2);
  const std::vector<std::string>& words = GetParam().arguments;
  const bool as_json = std::find(words.begin(), words.end(), "--json") != words.end();
  if (as_json) {
    EXPECT_THAT(said.out, testing::HasSubstr("\"exit_status\": 2"));
  } else {
    EXPECT_EQ(said.out, "");
  }
  EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
  EXPECT_THAT(said.err, testing::StartsWith("stretto: "));
  for (const std::string& part : GetParam().expected) {
    EXPECT_THAT(said.err, testing::HasSubstr(part));
  }
}

INSTANTIATE_TEST_SUITE_P(Cli, BadUsage, testing::ValuesIn(cases()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace stretto
