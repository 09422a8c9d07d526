#include "server/rest/result_call.h"

#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/handlers/result_sharing.h"
#include "server/rest/answer_sink.h"
#include "tests/server/rest/forms.h"
#include "tests/server/rest/rest_environment.h"

namespace upscaled::server {
namespace {

class ResultCallTest : public testing::Test {
 protected:
  ResultCallTest() { env_.handlers().sharing = &sharing_; }
  ~ResultCallTest() override { std::filesystem::remove_all(folder_); }

  // Computes a result. It is stored then.
  std::shared_ptr<FakeClient> Compute(int width_px, int height_px) {
    auto client = env_.Post("", PngOf(width_px, height_px));
    EXPECT_EQ(client->status(), 200) << client->body();
    return client;
  }
  std::shared_ptr<FakeClient> Get(const std::string& method, const FakeClient& computed,
                                  std::vector<HttpField> fields = {}) {
    const std::string tag = computed.Field("ETag");
    auto client = env_.Call(method, {.path = "/v1/results/{id}",
                                     .fields = std::move(fields),
                                     .parameter = tag.substr(1, tag.size() - 2)});
    client->AwaitEnd();
    return client;
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / absl::StrCat("result_call.", getpid());
  RestEnvironment env_;
  ResultSharing sharing_{
      {.software = "test",
       .store = *ResultStore::Open({.directory = folder_, .max_bytes = int64_t{1} << 30}),
       .max_held_bytes = int64_t{4} << 20,
       .max_computations = 2}};
};

TEST_F(ResultCallTest, GivesAllAndParts) {
  const auto computed = Compute(150, 100);
  const std::string image = computed->body();
  const auto all = Get("GET", *computed);
  EXPECT_TRUE(all->finished() && all->body() == image);
  EXPECT_EQ(all->Field("Cache-Control"), "public, max-age=31536000, immutable");
  const auto part = Get("GET", *computed, {{"Range", "bytes=10-19"}});
  EXPECT_EQ(part->status(), 206);
  EXPECT_EQ(part->body(), image.substr(10, 10));
  EXPECT_EQ(part->Field("Content-Range"), absl::StrCat("bytes 10-19/", image.size()));
}

// Second lines of a field, and If-Match, were ignored.
TEST_F(ResultCallTest, HeedsConditions) {
  const std::string png = PngOf(150, 100);
  const auto computed = env_.Post("", png);
  const std::string tag = computed->Field("ETag"), other = "\"x\"";
  const auto status = [&](std::vector<HttpField> fields) {
    return Get("GET", *computed, std::move(fields))->status();
  };
  EXPECT_EQ(status({{"If-None-Match", other}, {"If-None-Match", tag}}), 304);
  EXPECT_EQ(status({{"If-None-Match", absl::StrCat(other, ", ", tag)}}), 304);
  EXPECT_EQ(status({{"If-None-Match", other}}), 200);
  EXPECT_EQ(status({{"If-Match", tag}}), 200);
  EXPECT_EQ(status({{"If-Match", "*"}}), 200);
  EXPECT_EQ(status({{"If-Match", other}, {"If-Match", tag}}), 200);
  EXPECT_EQ(status({{"If-Match", tag}, {"Range", "bytes=0-9"}}), 206);
  EXPECT_EQ(status({{"If-Match", other}}), 412);
  EXPECT_EQ(status({{"If-Match", ""}}), 412);
  EXPECT_EQ(status({{"If-Match", "W/" + tag}}), 412) << "a weak tag";
  EXPECT_EQ(status({{"If-Match", other}, {"If-None-Match", tag}}), 412) << "it goes first";
  EXPECT_EQ(status({{"If-Match", other}, {"Range", "bytes=0-9"}}), 412);
  const auto failed = Get("GET", *computed, {{"If-Match", other}});
  EXPECT_EQ(failed->Field("Content-Type"), "application/problem+json");
  EXPECT_NE(failed->body().find("If-Match"), std::string::npos);

  const auto again = [&](std::vector<HttpField> fields) {
    return env_.Post("", png, std::move(fields))->status();
  };
  EXPECT_EQ(again({{"If-None-Match", other}, {"If-None-Match", tag}}), 304);
  EXPECT_EQ(again({{"If-Match", tag}}), 200);
  EXPECT_EQ(again({{"If-Match", other}}), 412);
}

TEST_F(ResultCallTest, TellsTheLengthOfWhatItSendsInPieces) {
  const auto computed = Compute(300, 200);
  const size_t bytes = computed->body().size();
  ASSERT_GT(bytes, 4 * AnswerSink::kPieceBytes);
  EXPECT_EQ(Get("GET", *computed)->length(), bytes);
  EXPECT_EQ(Get("GET", *computed, {{"Range", "bytes=9-"}})->length(), bytes - 9);
  const auto head = Get("HEAD", *computed, {{"Range", "bytes=9-"}});
  EXPECT_EQ(head->status(), 200) << "ranges are for GET (RFC 9110, section 14.2)";
  EXPECT_EQ(head->length(), bytes);
  EXPECT_EQ(Get("GET", *computed, {{"If-None-Match", "*"}})->length(), std::nullopt);
}

TEST_F(ResultCallTest, LetsNobodyKeepTheAnswerForAPartThatIsNone) {
  const auto computed = Compute(20, 10);
  const auto none = Get("GET", *computed, {{"Range", "bytes=1000000-"}});
  EXPECT_EQ(none->status(), 416);
  EXPECT_EQ(none->Field("Content-Range"), absl::StrCat("bytes */", computed->body().size()));
  EXPECT_EQ(none->Field("Cache-Control"), "no-store");
  EXPECT_EQ(none->Field("Content-Type"), "application/problem+json");
  EXPECT_NE(none->body().find("Range"), std::string::npos);
  EXPECT_EQ(none->Field("ETag"), "");
}

TEST_F(ResultCallTest, ReadsNothingForHead) {
  const auto computed = Compute(300, 200);
  ASSERT_GT(computed->body().size(), 4 * AnswerSink::kPieceBytes);
  const auto head = Get("HEAD", *computed);
  EXPECT_EQ(head->status(), 200);
  EXPECT_TRUE(head->finished());
  EXPECT_EQ(head->Field("ETag"), computed->Field("ETag"));
  EXPECT_EQ(head->length(), computed->body().size());
  EXPECT_EQ(head->body(), "");
  EXPECT_EQ(env_.records().back().sent_bytes, 0);
}

}  // namespace
}  // namespace upscaled::server
