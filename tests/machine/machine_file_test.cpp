// Machine files: the shipped ones load, and whatever else stands in one is answered in a sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include "core/embedded_text.h"
#include "stretto/error.h"
#include "stretto/machine.h"

namespace stretto {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

std::string shipped(const std::string& name) {
  std::ifstream file(std::string(STRETTO_TEST_DIR) + "/../../machines/" + name + ".json");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  try {
    load_machine_text(text, "mine.json");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(MachineFile, EveryShippedOneLoadsWithASourceForEveryFigure) {
  const auto names = machine_names();
  for (const char* name : {"h200x8", "h200x16", "h200x64", "h100x8", "a100x8-pcie"}) {
    EXPECT_THAT(names, Contains(name));
  }
  for (const std::string& name : names) {
    const Machine machine = load_machine(name);
    EXPECT_EQ(machine.name, name);
    EXPECT_FALSE(machine.description.empty());
    EXPECT_EQ(machine.sources.size(), 27u) << name;
  }
}

TEST(MachineFile, HoldsTheMeasuredFigures) {
  const Machine machine = load_machine("h200x8");
  EXPECT_EQ(machine.ranks(), 8);
  EXPECT_EQ(machine.sms, 132);
  EXPECT_EQ(machine.hbm_gb_per_s, 3750);
  EXPECT_EQ(machine.push_by_blocks.at(8), 348);
  EXPECT_EQ(machine.push_multi_by_blocks.at(16), 300);
}

TEST(MachineFile, ABaseGivesWhatTheFileLeavesOut) {
  const Machine one = load_machine("h200x8");
  const Machine two = load_machine("h200x16");
  EXPECT_EQ(two.ranks(), 16);
  EXPECT_EQ(two.gemm_tflops, one.gemm_tflops);
  EXPECT_EQ(one.network_gb_per_s, 0);
  EXPECT_EQ(two.network_gb_per_s, 47.5);
  EXPECT_FALSE(two.same_node(7, 8));
  EXPECT_TRUE(two.same_node(8, 15));
}

// Files that were written before the figure was known.
TEST(MachineFile, MayLeaveOutTheCache) {
  EXPECT_EQ(load_machine("a100x8-pcie").l2_mb, 40);
  const std::string text = replaced(shipped("a100x8-pcie"), "\"l2_mb\"", "\"l2\"");
  EXPECT_THAT(error_of(text), HasSubstr("l2_mb"));
  const size_t begin = text.find("\"l2\""), end = text.find('}', begin);
  const std::string without = text.substr(0, begin) + text.substr(text.find('"', end));
  EXPECT_EQ(load_machine_text(without, "mine.json").l2_mb, 50);
}

TEST(MachineFile, TheDefaultGrowsInNodes) {
  EXPECT_EQ(default_machine(1).name, "h200x8");
  EXPECT_EQ(default_machine(8).nodes, 1);
  EXPECT_EQ(default_machine(9).nodes, 2);
  EXPECT_EQ(default_machine(64).nodes, 8);
  EXPECT_EQ(default_machine(65).ranks(), 72);
  EXPECT_EQ(default_machine(65).name, "h200x72");
}

TEST(MachineFile, IsFoundByPath) {
  const std::string path = std::string(STRETTO_TEST_DIR) + "/../../machines/h100x8.json";
  EXPECT_EQ(load_machine(path).name, "h100x8");
  EXPECT_THROW(load_machine("/nowhere/h100x8.json"), SystemError);
}

TEST(MachineFile, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  try {
    load_machine("h200x9");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("h200x9"), HasSubstr("a100x8-pcie")));
  }
  EXPECT_THROW(load_machine(".."), UsageError);
  EXPECT_THROW(load_machine(""), UsageError);
}

struct Fault {
  const char* from;
  const char* to;
  std::vector<std::string> said;
};

class MachineFault : public ::testing::TestWithParam<Fault> {};

TEST_P(MachineFault, IsNamedWithFileKeyAndWhatIsRight) {
  const Fault& fault = GetParam();
  const std::string error = error_of(replaced(shipped("h200x8"), fault.from, fault.to));
  EXPECT_THAT(error, HasSubstr("mine.json"));
  for (const std::string& part : fault.said) EXPECT_THAT(error, HasSubstr(part));
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    All, MachineFault,
    ::testing::Values(
        Fault{"\"gemm_tflops\"", "\"gemm_tflop\"", {"figures", "gemm_tflop", "did you mean"}},
        Fault{"\"nodes\": 1,", "", {"nodes is missing"}},
        Fault{"\"nodes\": 1,", "\"nodes\": 1, \"nodes\": 1,", {"nodes", "twice"}},
        Fault{"\"nodes\": 1,", "\"nodes\": 1.5,", {"nodes", "whole number", "1.5"}},
        Fault{"\"nodes\": 1,", "\"nodes\": 0,", {"nodes", "from 1", "found 0"}},
        Fault{"\"nodes\": 1,", "\"nodes\": 2,", {"network_gb_per_s", "several nodes"}},
        Fault{"\"nodes\": 1,", "\"nodes\": 18446744073709551615,", {"nodes", "whole number"}},
        Fault{"\"nodes\": 1,", "\"nodes\": \"1\",", {"nodes", "whole number", "1"}},
        Fault{"\"value\": 822", "\"value\": -822", {"gemm_tflops", "-822"}},
        Fault{"\"value\": 822", "\"value\": 1e999", {"mine.json"}},
        Fault{"\"value\": 822", "\"value\": NaN", {"not JSON", "line", "column"}},
        Fault{"\"value\": 822", "\"value\": null", {"gemm_tflops", "null"}},
        Fault{"\"value\": 822", "\"value\": 822, \"valeu\": 1", {"gemm_tflops", "valeu"}},
        Fault{"TFLOP/s", "GFLOP/s", {"gemm_tflops.unit", "'TFLOP/s'", "GFLOP/s"}},
        Fault{"\"value\": 18,", "\"value\": 132,", {"nccl_sms", "132"}},
        Fault{"[2, 91]", "[1, 91]", {"push_by_blocks", "ascending"}},
        Fault{"[2, 91]", "[2, 0]", {"push_by_blocks", "found 0"}},
        Fault{"[2, 91]", "[2]", {"push_by_blocks", "pairs"}},
        Fault{"\"name\": \"h200x8\"", "\"name\": \"../x\"", {"name", "letters"}},
        Fault{"\"name\": \"h200x8\"", "\"name\": 8", {"name", "text"}},
        Fault{"\"nodes\": 1,", "\"nodes\": 1, \"base\": \"h100x8\",", {"base"}},
        Fault{"\"nodes\": 1,",
              "\"nodes\": 1, \"base\": \"../../etc/passwd\",",
              {"base", "unknown machine", "etc/passwd"}},
        Fault{"\"nodes\": 1,",
              "\"nodes\": 1, \"base\": \"/etc/passwd\",",
              {"base", "unknown machine"}},
        Fault{"\"nodes\": 1,",
              "\"nodes\": 1, \"base\": \"other.json\",",
              {"base", "unknown machine"}}));

TEST(MachineFile, RefusesWhatIsNotAnObjectAtAll) {
  for (const char* text : {"", "[]", "3", "{", "\xff\xfe", "null", "{\"name\": \"x\"}"}) {
    EXPECT_THAT(error_of(text), HasSubstr("mine.json")) << text;
  }
  EXPECT_THAT(error_of(std::string(100000, '[')), HasSubstr("mine.json"));
  EXPECT_THAT(error_of(std::string(size_t{2} << 20, ' ')), HasSubstr("longer than"));
}

TEST(MachineFile, SurvivesAnyDamage) {
  const std::string good = shipped("h200x8");
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string text = good;
    for (uint32_t i = 0; i <= random() % 3; ++i) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 40);
          break;
        default:
          text.resize(at + 1);
      }
    }
    refused += error_of(text) != "no error";
  }
  EXPECT_GT(refused, 500);
}

TEST(MachineFile, ShippedOnesTravelInsideTheBinary) {
  ASSERT_GE(shipped_machines().size(), 4u);
  for (const EmbeddedText& machine : shipped_machines()) {
    const std::string name(machine.name);
    EXPECT_EQ(machine.text, shipped(name.substr(0, name.size() - 5))) << name;
    EXPECT_THAT(machine_names(), Contains(name.substr(0, name.size() - 5)));
  }
}

}  // namespace
}  // namespace stretto
