#include "tests/bench/markdown.h"

#include <gtest/gtest.h>

namespace upscaled::bench {
namespace {

using Json = nlohmann::ordered_json;

TEST(MarkdownTest, TablesHaveAColumnForEveryKey) {
  const Json list = {{{"name", "a|b"}, {"threads", 2}, {"p50_seconds", 0.0123456}},
                     {{"name", "c"}, {"error", "no\nmemory"}}};
  EXPECT_EQ(MarkdownTable(list),
            "| name | threads | p50 ms | error |\n"
            "|---|---|---|---|\n"
            "| a\\|b | 2 | 12.35 |  |\n"
            "| c |  |  | no memory |\n");
}

TEST(MarkdownTest, GridsShowOneValue) {
  const Json list = {{{"name", "direct"}, {"shape", "3-32"}, {"ratio", 0.81234}},
                     {{"name", "direct"}, {"shape", "32-32"}, {"ratio", 1}},
                     {{"name", "peer"}, {"shape", "32-32"}, {"error", "unknown"}}};
  EXPECT_EQ(MarkdownGrid(list, "name", "shape", "ratio"),
            "|  | 3-32 | 32-32 |\n"
            "|---|---|---|\n"
            "| direct | 0.8123 | 1 |\n"
            "| peer |  | unknown |\n");
}

}  // namespace
}  // namespace upscaled::bench
