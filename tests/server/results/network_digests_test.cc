#include "server/results/network_digests.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "engine/base/files.h"

namespace upscaled::server {
namespace {

namespace fs = std::filesystem;

class NetworkDigestsTest : public ::testing::Test {
 protected:
  NetworkDigestsTest() { fs::create_directories(folder_); }
  ~NetworkDigestsTest() override { fs::remove_all(folder_); }

  ModelVariant Write(const std::string& name, const std::string& text, const std::string& bin) {
    const fs::path weights = folder_ / name;
    EXPECT_TRUE(ReplaceFile(weights, {text}).ok());
    EXPECT_TRUE(ReplaceFile(fs::path(weights).replace_extension(".bin"), {bin}).ok());
    ModelVariant variant{.weights = weights};
    std::string state;
    for (const fs::path& file : FilesOf(variant)) {
      if (!state.empty()) state += " ";
      state += *FileState(file);
    }
    variant.files_state = std::make_shared<const std::string>(state);
    return variant;
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / ("digests." + std::to_string(getpid()));
  const ModelCard card_{.name = "model"};
  NetworkDigests digests_;
};

TEST_F(NetworkDigestsTest, FollowsFromEachFile) {
  const Digest first = *digests_.Of(card_, Write("a.param", "layers", "weights"));
  EXPECT_EQ(first, *digests_.Of(card_, Write("a.param", "layers", "weights")));
  EXPECT_NE(first, *digests_.Of(card_, Write("a.param", "layerz", "weights")));
  EXPECT_NE(first, *digests_.Of(card_, Write("a.param", "layers", "weightz")));
  EXPECT_NE(first, *digests_.Of(card_, Write("b.param", "layers", "weights")));
}

TEST_F(NetworkDigestsTest, DoesNotFollowFromTheCard) {
  const ModelVariant variant = Write("a.param", "layers", "weights");
  EXPECT_EQ(*digests_.Of(card_, variant), *digests_.Of({.name = "other", .version = 7}, variant));
}

TEST_F(NetworkDigestsTest, FollowsFromTheCells) {
  ModelVariant variant = Write("a.param", "layers", "weights");
  const Digest digest = *digests_.Of(card_, variant);
  variant = Write("a.param", "layers", "weights");
  variant.cell_px = 512;
  EXPECT_NE(*digests_.Of(card_, variant), digest);
}

TEST_F(NetworkDigestsTest, IsKeptWhileTheFilesAreListed) {
  const ModelVariant variant = Write("a.param", "layers", "weights");
  const Digest digest = *digests_.Of(card_, variant);
  fs::remove(variant.weights);
  EXPECT_EQ(*digests_.Of(card_, variant), digest);
}

TEST_F(NetworkDigestsTest, RefusesFilesThatHaveChanged) {
  const ModelVariant variant = Write("a.param", "layers", "weights");
  Write("a.param", "other layers", "weights");
  EXPECT_TRUE(absl::IsFailedPrecondition(digests_.Of(card_, variant).status()));
  fs::remove(variant.weights);
  EXPECT_TRUE(absl::IsNotFound(digests_.Of(card_, variant).status()));
}

}  // namespace
}  // namespace upscaled::server
