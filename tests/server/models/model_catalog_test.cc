#include "server/models/model_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/admission/error.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<ModelCatalog> Bundled(const std::string& default_model) {
  return ModelCatalog::Create(*ModelRepository::Open({"engine/model/bundled"}), default_model);
}

TEST(ModelCatalogTest, FindsByNameAndByDefault) {
  const auto catalog = Bundled("general-2x");
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  EXPECT_EQ((*catalog->Find("general-2x"))->card->name, "general-2x");
  EXPECT_EQ(*catalog->Find(""), *catalog->Find("general-2x"));
  EXPECT_EQ((*catalog->Find(""))->halo_px, 7);  // seven 3x3 layers
}

TEST(ModelCatalogTest, UnknownNamesListTheKnown) {
  const absl::Status status = Bundled("general-2x")->Find("other").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kUnknownModel);
  EXPECT_THAT(std::string(status.message()), HasSubstr("other"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("general-2x"));
}

TEST(ModelCatalogTest, TheDefaultMustBeThere) {
  const absl::Status status = Bundled("other").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("other"));
}

TEST(ModelCatalogTest, TheNativeScaleIsTheLeastAboveOne) {
  ModelCard card;
  card.variants = {{.scale = 1}, {.scale = 4}, {.scale = 3}};
  EXPECT_EQ(NativeScale(card), 3);
  card.variants = {{.scale = 1, .noise_level = 2}};
  EXPECT_EQ(NativeScale(card), 1);
}

}  // namespace
}  // namespace upscaled::server
