#include "engine/base/nearest_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace upscaled {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kNames = {"http",       "listen",        "model-repository",
                                         "max-models", "default-model", "device",
                                         "threads",    "model-cache",   "max-source-bytes"};
constexpr OthersWord kOthers[] = {{"port", "http"}, {"port", "listen"}, {"gpu", "device"}};

TEST(NearestNamesTest, SpelledAlmostAlike) {
  EXPECT_THAT(NearestNames("thread", kNames), ElementsAre("threads"));
  EXPECT_THAT(NearestNames("htpp", kNames), ElementsAre("http"));
  EXPECT_THAT(NearestNames("model-repositry", kNames), ElementsAre("model-repository"));
  EXPECT_THAT(NearestNames("max-surce-byts", kNames), ElementsAre("max-source-bytes"));
}

TEST(NearestNamesTest, WithWordsInCommon) {
  EXPECT_THAT(NearestNames("models", kNames),
              ElementsAre("model-repository", "max-models", "default-model"));
  EXPECT_THAT(NearestNames("cache-of-models", kNames), ElementsAre("model-cache"));
  EXPECT_THAT(NearestNames("max-bytes", kNames), IsEmpty()) << "words of too many names";
}

TEST(NearestNamesTest, WordsOfOthers) {
  EXPECT_THAT(NearestNames("gpus", kNames, kOthers), ElementsAre("device"));
  EXPECT_THAT(NearestNames("port", kNames, kOthers), ElementsAre("http", "listen"));
  EXPECT_THAT(NearestNames("http-port", kNames, kOthers), ElementsAre("http"));
  EXPECT_THAT(NearestNames("gpus", kNames), IsEmpty());
}

TEST(NearestNamesTest, NoneIsNear) {
  EXPECT_THAT(NearestNames("frobnicate", kNames, kOthers), IsEmpty());
  EXPECT_THAT(NearestNames("", kNames, kOthers), IsEmpty());
  EXPECT_THAT(NearestNames("-", kNames, kOthers), IsEmpty());
  EXPECT_THAT(NearestNames("threads", {}, kOthers), IsEmpty());
}

}  // namespace
}  // namespace upscaled
