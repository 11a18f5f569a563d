// What a fabric says where it cannot be.
#include "fabric/fabric.h"

#include <gmock/gmock.h>

#include "gpu_group.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

using ::testing::HasSubstr;

std::string reason_for(int ranks) {
  try {
    in_process(ranks);
  } catch (const SystemError& error) {
    return error.what();
  }
  return {};
}

TEST(FabricTest, TooFewGpusAreNamed) {
  if (!cuda::why_no_driver().empty()) {
    EXPECT_EQ(reason_for(2), cuda::why_no_driver());
    return;
  }
  EXPECT_THAT(reason_for(1000), HasSubstr("too few GPUs: "));
  if (cuda::ranks_a_gpu() > 1) return;
  EXPECT_THAT(reason_for(cuda::num_devices() + 1),
              HasSubstr("STRETTO_RANKS_A_GPU=2 lets ranks share them"));
}

TEST(FabricTest, SourcesHaveNames) {
  for (const Source source : {Source::peer, Source::windows, Source::exported}) {
    EXPECT_EQ(source_from(name_of(source)), source);
  }
  try {
    source_from("window");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'windows'"));
  }
}

TEST(HostGroupTest, ASoloGroupAgreesWithItself) {
  const auto group = solo_group();
  EXPECT_EQ(group->all_gather("words", "word"), std::vector<std::string>{"word"});
  group->require_same("a number", "4");
  EXPECT_THROW(group->together("a step", [] { throw UsageError("no"); }), UsageError);
}

}  // namespace
}  // namespace stretto::fabric
