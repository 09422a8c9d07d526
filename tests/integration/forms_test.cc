// Forms of any order and size, over HTTP: no field is lost, no wrong value taken.
#include <map>
#include <string>
#include <string_view>

#include <gmock/gmock.h>

#include "nlohmann/json.hpp"
#include "server/rest/upload.h"
#include "server/rest/upscale_parameters.h"
#include "tests/integration/http_answers.h"
#include "tests/integration/test_server.h"
#include "tests/server/rest/forms.h"

namespace upscaled::server {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// On both sides of the memory for a form's image, and beyond some blocks on the disk.
constexpr size_t kSizes[] = {Upload::kMaxHeldBytes - 1, Upload::kMaxHeldBytes,
                             Upload::kMaxHeldBytes + 1, Upload::kMaxHeldBytes + 1'000'000};

class FormsTest : public ::testing::Test {
 protected:
  HttpAnswer PostForm(const std::vector<FormPart>& parts, const std::string& query = "") {
    return Request(server_.server().http_port(), "POST", "/v1/upscale" + query, FormOf(parts),
                   {{kForm.front().name, kForm.front().value}});
  }
  HttpAnswer Post(const std::string& query, const std::string& body) {
    return Request(server_.server().http_port(), "POST", "/v1/upscale?" + query, body);
  }
  // Bytes behind the end of an image belong to no decoder.
  static FormPart ImageOf(std::string png, size_t bytes) {
    png.resize(bytes, 'x');
    return {"image", std::move(png), true};
  }

  const std::string png_ = PngOf(30, 20);
  TestServer server_;
};

TEST_F(FormsTest, GivesTheBytesOfTheQueryInAnyOrderAndSize) {
  const std::string expected = Post("scale=1.5&noise=1&model=general-2x", png_).body;
  const FormPart scale{"scale", "1.5"}, noise{"noise", "1"}, model{"model", "general-2x"};
  for (const size_t bytes : kSizes) {
    const FormPart image = ImageOf(png_, bytes);
    for (const auto& parts :
         {std::vector{image, scale, noise, model}, std::vector{scale, noise, model, image},
          std::vector{scale, image, noise, model}}) {
      const HttpAnswer answer = PostForm(parts);
      EXPECT_EQ(answer.status, 200) << answer.body;
      EXPECT_TRUE(answer.whole);
      EXPECT_TRUE(answer.body == expected) << bytes;
    }
  }
}

// A value that the field takes.
std::string ValueOf(std::string_view name) {
  static const std::map<std::string_view, std::string> kWords = {
      {"fit", "contain"},      {"format", "png"},
      {"depth", "8"},          {"alpha", "network"},
      {"metadata", "keep"},    {"alpha_colour", "bleed"},
      {"on_damage", "fail"},   {"precision", "exact"},
      {"on_error", "problem"}, {"webhook", "https://a.example/"}};
  const auto word = kWords.find(name);
  return word == kWords.end() ? "1" : word->second;
}

// A field sent twice is refused by its name only if the server has seen both.
TEST_F(FormsTest, SeesEveryFieldOfTheContract) {
  for (const size_t bytes : kSizes) {
    const FormPart image = ImageOf(png_, bytes);
    for (const std::string_view known : ParameterNames()) {
      const FormPart field{std::string(known), ValueOf(known)};
      for (const auto& parts :
           {std::vector{image, field, field}, std::vector{field, image, field}}) {
        const HttpAnswer answer = PostForm(parts);
        EXPECT_EQ(answer.status, 400) << known << " at " << bytes;
        EXPECT_THAT(answer.body, HasSubstr("given more than once")) << known << " at " << bytes;
      }
    }
  }
}

TEST_F(FormsTest, RefusesUnknownFieldsAndWrongValuesBehindTheImage) {
  const std::pair<FormPart, int> kWrong[] = {
      {{"sacle", "2"}, 400},      {{"scale", "much"}, 400},  {{"scale", "99"}, 400},
      {{"noise", "7"}, 400},      {{"width", "-3"}, 400},    {{"format", "gif"}, 400},
      {{"quality", "500"}, 400},  {{"dry_run", "may"}, 400}, {{"timeout", "0"}, 400},
      {{"model", "none-9x"}, 404}};
  for (const size_t bytes : kSizes) {
    for (const auto& [field, status] : kWrong) {
      const HttpAnswer answer = PostForm({ImageOf(png_, bytes), field});
      EXPECT_EQ(answer.status, status) << field.name << "=" << field.value << " at " << bytes;
      EXPECT_EQ(answer.fields.at("Content-Type"), "application/problem+json");
    }
  }
}

TEST_F(FormsTest, HeedsFieldsThatAreNotTheModels) {
  for (const size_t bytes : kSizes) {
    const FormPart image = ImageOf(png_, bytes);
    const json verdict = json::parse(PostForm({image, {"dry_run", "1"}, {"width", "90"}}).body);
    EXPECT_EQ(verdict["result"], json({{"width_px", 90}, {"height_px", 60}, {"format", "png"}}));
    const HttpAnswer saved = PostForm({image, {"download", "mine.webp"}, {"format", "webp"}});
    EXPECT_EQ(saved.fields.at("Content-Type"), "image/webp");
    EXPECT_THAT(saved.fields.at("Content-Disposition"), HasSubstr("mine.webp"));
    EXPECT_EQ(PostForm({image, {"request_id", "r7"}}).fields.at("X-Request-Id"), "r7");
    const int late = PostForm({image, {"timeout", "0.000001"}}).status;
    EXPECT_TRUE(late == 504 || late == 429) << late;  // it passed, or cannot be met
  }
}

TEST(FormsLimitsTest, RefusesAnImageAboveTheLimitsOfSourcesAndDisk) {
  ServerConfig config = TestConfig();
  config.limits.max_source_bytes = static_cast<int64_t>(Upload::kMaxHeldBytes) + 100;
  config.spool_bytes = 0;
  TestServer server(config);
  const auto post = [&](size_t bytes) {
    std::string image = PngOf(8, 8);
    image.resize(bytes, 'x');
    return Request(server.server().http_port(), "POST", "/v1/upscale",
                   FormOf({{"image", image, true}, {"scale", "1"}}),
                   {{kForm.front().name, kForm.front().value}});
  };
  EXPECT_EQ(post(Upload::kMaxHeldBytes).status, 200);
  const HttpAnswer large = post(Upload::kMaxHeldBytes + 101);
  EXPECT_EQ(large.status, 413);
  EXPECT_THAT(large.body, HasSubstr("max-source-bytes"));
}

TEST(FormsLimitsTest, NamesTheDiskThatIsNotThere) {
  ServerConfig config = TestConfig();
  config.spool_bytes = 0;
  TestServer server(config);
  std::string image = PngOf(8, 8);
  image.resize(Upload::kMaxHeldBytes + 200'000, 'x');
  const HttpAnswer answer = Request(server.server().http_port(), "POST", "/v1/upscale",
                                    FormOf({{"image", image, true}, {"scale", "1"}}),
                                    {{kForm.front().name, kForm.front().value}});
  EXPECT_EQ(answer.status, 413) << answer.body;
  EXPECT_THAT(answer.body, HasSubstr("spool-bytes"));
}

}  // namespace
}  // namespace upscaled::server
