// POST /v1/upscale?url=...: an image of its host.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/server/fetch/test_origin.h"
#include "tests/server/rest/forms.h"
#include "tests/server/rest/rest_environment.h"
#include "tests/support/await.h"

namespace upscaled::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// An origin, and a service with a right to fetch from its /public/.
class FetchCallTest : public testing::Test {
 protected:
  explicit FetchCallTest(Limits limits = {})
      : env_(limits, {.fetch = {.allowed_private = *ParseUrlPrefixes({origin_.Url("/public/")})}}) {
  }

  std::string Query(const std::string& path, const std::string& more = "") const {
    return "url=" + origin_.Url(path) + more;
  }
  std::string Reason(const FakeClient& client, int status) {
    EXPECT_EQ(client.status(), status) << client.body();
    EXPECT_EQ(client.Field("Content-Type"), "application/problem+json");
    return json::parse(client.body(), nullptr, false).value("reason", "");
  }

  const std::string image_ = PngOf(33, 21);
  const TestOrigin origin_{[this](const std::string& header, const TestSocket& connection) {
    if (header.starts_with("GET /public/none")) {
      connection.Write("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    } else if (header.starts_with("GET /public/text")) {
      connection.Write(OkAnswer("no image"));
    } else if (header.starts_with("GET /public/hang")) {
      connection.Write("HTTP/1.1 200 OK\r\n\r\n");
      EXPECT_TRUE(connection.Ends());
    } else {
      connection.Write(OkAnswer(image_));
    }
  }};
  RestEnvironment env_;
};

TEST_F(FetchCallTest, GivesTheBytesOfTheImageThatIsSent) {
  const auto sent = env_.Post("scale=3", image_);
  ASSERT_EQ(sent->status(), 200) << sent->body();
  const auto fetched = env_.Post(Query("/public/my%2520cat.png", "&scale=3"), "");
  ASSERT_EQ(fetched->status(), 200) << fetched->body();
  EXPECT_TRUE(fetched->body() == sent->body());
  EXPECT_EQ(fetched->Field("Content-Disposition"), "inline; filename=\"my cat-3x.png\"");
  const RequestRecord record = env_.records().back();
  EXPECT_EQ(record.fetched_from, origin_.Url(""));
  EXPECT_EQ(record.received_bytes, std::ssize(image_));
  EXPECT_EQ(env_.records().front().fetched_from, "");
}

TEST_F(FetchCallTest, TakesTheUrlOutOfAForm) {
  const auto client = env_.Post("scale=1", FormOf({{"url", origin_.Url("/public/a.png")}}), kForm);
  EXPECT_EQ(client->status(), 200) << client->body();
  EXPECT_TRUE(client->finished());
}

TEST_F(FetchCallTest, JudgesWithoutComputing) {
  const auto client = env_.Post(Query("/public/a.png", "&dry_run"), "");
  ASSERT_EQ(client->status(), 200) << client->body();
  EXPECT_EQ(json::parse(client->body())["source"]["width_px"], 33);
  const auto head = env_.Call("HEAD", {.path = "/v1/upscale", .query = Query("/public/a.png")});
  head->Send("");
  head->AwaitEnd();
  EXPECT_EQ(head->status(), 200);
}

TEST_F(FetchCallTest, TakesEitherAnImageOrAUrl) {
  EXPECT_EQ(Reason(*env_.Post(Query("/public/a.png"), image_), 400), "INVALID_OPTION");
  const auto form = env_.Post(Query("/public/a.png"), FormOf({{"image", image_}}), kForm);
  EXPECT_EQ(Reason(*form, 400), "INVALID_OPTION");
  EXPECT_THAT(form->body(), HasSubstr("only one of them"));
  EXPECT_EQ(env_.Post("url=&scale=1", image_)->status(), 200) << "as forms send none";
  EXPECT_TRUE(origin_.requests().empty());
}

TEST_F(FetchCallTest, RefusesWhatIsNotAllowed) {
  const auto refused = env_.Post(Query("/private/a.png"), "");
  EXPECT_EQ(Reason(*refused, 403), "SOURCE_REFUSED");
  EXPECT_THAT(refused->body(), HasSubstr("--fetch-allow"));
  EXPECT_EQ(env_.records().back().limit, "fetch-allow");
  EXPECT_EQ(Reason(*env_.Post("url=file:///etc/passwd", ""), 400), "INVALID_OPTION");
  EXPECT_EQ(Reason(*env_.Post(Query("/public/..%252fa"), ""), 400), "INVALID_OPTION");
  EXPECT_EQ(Reason(*env_.Post(Query("/public/a.png", "&scale=99"), ""), 400), "INVALID_OPTION");
  EXPECT_TRUE(origin_.requests().empty()) << "what is wrong is found before anything is fetched";
}

TEST_F(FetchCallTest, SaysWhichSettingTurnsItOn) {
  RestEnvironment off;
  const auto client = off.Post(Query("/public/a.png"), "");
  EXPECT_EQ(Reason(*client, 403), "SOURCE_REFUSED");
  EXPECT_THAT(client->body(), HasSubstr("--fetch-allow"));
}

TEST_F(FetchCallTest, TellsWhatItsHostDid) {
  EXPECT_EQ(Reason(*env_.Post(Query("/public/none"), ""), 502), "SOURCE_FAILED");
  EXPECT_EQ(Reason(*env_.Post(Query("/public/text"), ""), 422), "INVALID_IMAGE");
  const auto text = env_.Post(Query("/public/text", "&on_error=original"), "");
  EXPECT_EQ(Reason(*text, 422), "INVALID_IMAGE") << "only images leave the server";
  const auto failed = env_.Post(Query("/public/none", "&on_error=original"), "");
  EXPECT_EQ(Reason(*failed, 502), "SOURCE_FAILED") << "there is no original";
}

TEST_F(FetchCallTest, EndsWithItsClient) {
  const auto client = env_.Call("POST", {.path = "/v1/upscale", .query = Query("/public/hang")});
  client->Send("");
  test::Await([&] { return !origin_.requests().empty(); });
  client->Leave();
  client->AwaitEnd();
  EXPECT_EQ(env_.records().back().code, absl::StatusCode::kCancelled);
}

class SmallSourceTest : public FetchCallTest {
 protected:
  SmallSourceTest() : FetchCallTest({.max_source_bytes = 100}) {}
};

TEST_F(SmallSourceTest, RefusesLargeImages) {
  EXPECT_EQ(Reason(*env_.Post(Query("/public/a.png"), ""), 413), "LIMIT_EXCEEDED");
  EXPECT_EQ(env_.records().back().received_bytes, 0) << "its length was told";
}

}  // namespace
}  // namespace upscaled::server
