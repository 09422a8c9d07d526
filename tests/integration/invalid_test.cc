// Refused requests, and the answers to them.
#include <functional>

#include <gmock/gmock.h>

#include "tests/integration/test_server.h"
#include "tests/support/bombs.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using grpc::StatusCode;
using test::Encode;
using test::FreshRandom;
using test::PhotoImage;
using test::RandomInt;
using ::testing::HasSubstr;

struct BadOption {
  std::string name;
  std::function<void(pb::UpscaleOptions&)> set;
  std::string reason;
  std::vector<std::string> message_parts;  // value and limit
  StatusCode code = StatusCode::INVALID_ARGUMENT;
};

std::vector<BadOption> BadOptions() {
  using O = pb::UpscaleOptions;
  return {
      {"UnknownModel",
       [](O& o) { o.set_model("nope"); },
       "UNKNOWN_MODEL",
       {"nope", "general-2x"},
       StatusCode::NOT_FOUND},
      {"NoiseTooLow", [](O& o) { o.set_noise_level(-2); }, "INVALID_OPTION", {"-2", "-1 to 3"}},
      {"NoiseTooHigh", [](O& o) { o.set_noise_level(4); }, "INVALID_OPTION", {"4", "-1 to 3"}},
      {"NoiseNotThere", [](O& o) { o.set_noise_level(0); }, "UNKNOWN_MODEL", {"0", "-1, 1, 2, 3"}},
      {"ScaleZero", [](O& o) { o.set_scale(0); }, "INVALID_OPTION", {"0", "16"}},
      {"ScaleNegative", [](O& o) { o.set_scale(-2); }, "INVALID_OPTION", {"-2", "16"}},
      {"ScaleTooLarge", [](O& o) { o.set_scale(16.01); }, "INVALID_OPTION", {"16.01", "16"}},
      {"ScaleNan", [](O& o) { o.set_scale(std::nan("")); }, "INVALID_OPTION", {"nan", "16"}},
      {"SizeEmpty", [](O& o) { o.mutable_size(); }, "INVALID_OPTION", {"size is without a side"}},
      {"SidesContradict",
       [](O& o) {
         o.mutable_size()->set_width_px(5);
         o.mutable_size()->set_long_side_px(6);
       },
       "INVALID_OPTION",
       {"width_px 5", "long_side_px 6"}},
      {"ShortSideNegative",
       [](O& o) { o.mutable_size()->set_short_side_px(-5); },
       "INVALID_OPTION",
       {"size.short_side_px", "-5"}},
      {"FitOfOneSide",
       [](O& o) {
         o.mutable_size()->set_width_px(5);
         o.mutable_size()->set_fit(pb::FIT_COVER);
       },
       "INVALID_OPTION",
       {"size.fit is given", "height_px"}},
      {"Fit",
       [](O& o) {
         o.mutable_size()->set_width_px(5);
         o.mutable_size()->set_height_px(5);
         o.mutable_size()->set_fit(static_cast<pb::Fit>(9));
       },
       "INVALID_OPTION",
       {"size.fit", "9", "0 to 3"}},
      {"MaxPixels", [](O& o) { o.set_max_pixels(-1); }, "INVALID_OPTION", {"max_pixels", "-1"}},
      {"Depth",
       [](O& o) { o.set_depth(static_cast<pb::Depth>(9)); },
       "INVALID_OPTION",
       {"depth", "9"}},
      {"Depth16OfJpeg",
       [](O& o) {
         o.set_depth(pb::DEPTH_16);
         o.set_format(pb::IMAGE_FORMAT_JPEG);
       },
       "INVALID_OPTION",
       {"16"}},
      {"Alpha",
       [](O& o) { o.set_alpha(static_cast<pb::AlphaMethod>(9)); },
       "INVALID_OPTION",
       {"alpha", "9"}},
      {"AlphaColour",
       [](O& o) { o.set_alpha_colour(static_cast<pb::AlphaColour>(9)); },
       "INVALID_OPTION",
       {"alpha_colour", "9"}},
      {"Metadata",
       [](O& o) { o.set_metadata(static_cast<pb::MetadataPolicy>(9)); },
       "INVALID_OPTION",
       {"metadata", "9"}},
      {"OnDamage",
       [](O& o) { o.set_on_damage(static_cast<pb::DamagePolicy>(9)); },
       "INVALID_OPTION",
       {"on_damage", "9"}},
      {"Frame", [](O& o) { o.set_frame(-1); }, "INVALID_OPTION", {"frame", "-1"}},
      {"NoiseTwice",
       [](O& o) {
         o.set_noise_level(1);
         o.set_auto_noise(true);
       },
       "INVALID_OPTION",
       {"auto_noise", "noise_level"}},
      {"WidthNegative",
       [](O& o) { o.mutable_size()->set_width_px(-5); },
       "INVALID_OPTION",
       {"size.width_px", "-5"}},
      {"HeightTooLarge",
       [](O& o) { o.mutable_size()->set_height_px(1 << 30); },
       "INVALID_OPTION",
       {"size.height_px", "1073741824", "1048576"}},
      {"Quality", [](O& o) { o.set_quality(101); }, "INVALID_OPTION", {"101", "0 to 100"}},
      {"Compression", [](O& o) { o.set_png_compression(10); }, "INVALID_OPTION", {"10", "0 to 9"}},
      {"Format",
       [](O& o) { o.set_format(static_cast<pb::ImageFormat>(99)); },
       "INVALID_OPTION",
       {"format", "99"}},
      {"Precision",
       [](O& o) { o.set_precision(static_cast<pb::Precision>(7)); },
       "INVALID_OPTION",
       {"precision", "7"}},
      {"TileTooSmall", [](O& o) { o.set_tile_px(31); }, "INVALID_OPTION", {"31", "32 to 4096"}},
      {"TileTooLarge", [](O& o) { o.set_tile_px(4097); }, "INVALID_OPTION", {"4097", "32 to 4096"}},
      {"PrefilterEmpty",
       [](O& o) { o.mutable_prefilter(); },
       "INVALID_OPTION",
       {"prefilter.sigma_space is 0", "0.1 to 8"}},
      {"PrefilterTooWide",
       [](O& o) {
         o.mutable_prefilter()->set_sigma_space(8.5);
         o.mutable_prefilter()->set_sigma_range(20);
       },
       "INVALID_OPTION",
       {"prefilter.sigma_space is 8.5", "0.1 to 8"}},
      {"PrefilterRangeNan",
       [](O& o) {
         o.mutable_prefilter()->set_sigma_space(2);
         o.mutable_prefilter()->set_sigma_range(std::nan(""));
       },
       "INVALID_OPTION",
       {"prefilter.sigma_range is nan", "0.1 to 255"}},
      {"ResultTooLarge", [](O& o) { o.set_scale(15); }, "LIMIT_EXCEEDED", {"450", "300", "100000"}},
      {"WebpTooLarge",
       [](O& o) {
         o.mutable_size()->set_width_px(17000);
         o.mutable_size()->set_height_px(1);
         o.mutable_size()->set_fit(pb::FIT_STRETCH);
         o.set_format(pb::IMAGE_FORMAT_WEBP);
       },
       "INVALID_OPTION",
       {"17000", "16383"}},
  };
}

class BadOptionTest : public ::testing::TestWithParam<BadOption> {};

TEST_P(BadOptionTest, IsRefusedByName) {
  std::mt19937 random = FreshRandom();
  ServerConfig config = TestConfig();
  config.limits.max_result_pixels = 100'000;
  TestServer server(config);
  const std::string image = *Encode(PhotoImage({30, 20, 3, SampleType::kU8}, random).view(), {});
  pb::UpscaleOptions options;
  GetParam().set(options);
  const Outcome streamed = UpscaleImage(server.stub(), options, image);
  pb::UpscaleRequest request;
  *request.mutable_options() = options;
  request.set_image(image);
  pb::UpscaleResponse response;
  grpc::ClientContext context;
  const grpc::Status unary = server.stub().Upscale(&context, request, &response);
  for (const grpc::Status& status : {streamed.status, unary}) {
    for (const std::string& part : GetParam().message_parts) {
      EXPECT_TRUE(IsError(status, GetParam().code, GetParam().reason, part));
    }
  }
  EXPECT_FALSE(streamed.header.has_value());
}

INSTANTIATE_TEST_SUITE_P(Options, BadOptionTest, ::testing::ValuesIn(BadOptions()),
                         [](const auto& info) { return info.param.name; });

class InvalidTest : public ::testing::Test {
 protected:
  std::string Png(int width, int height) {
    return *Encode(PhotoImage({width, height, 3, SampleType::kU8}, random_).view(), {});
  }
  // The status of a call of these messages.
  grpc::Status Send(TestServer& server, const std::vector<pb::UpscaleImageRequest>& messages) {
    grpc::ClientContext context;
    const auto stream = server.stub().UpscaleImage(&context);
    for (const auto& message : messages) {
      if (!stream->Write(message)) break;
    }
    stream->WritesDone();
    Outcome outcome;
    ReadToEnd(context, *stream, outcome);
    return outcome.status;
  }
  std::mt19937 random_ = FreshRandom();
};

TEST_F(InvalidTest, MessagesOutOfOrder) {
  TestServer server;
  EXPECT_TRUE(IsError(Send(server, {}), StatusCode::INVALID_ARGUMENT, "INVALID_OPTION",
                      "without a message"));
  EXPECT_TRUE(IsError(Send(server, {ChunkMessage("x")}), StatusCode::INVALID_ARGUMENT,
                      "INVALID_OPTION", "first message must hold the options"));
  EXPECT_TRUE(IsError(Send(server, {pb::UpscaleImageRequest()}), StatusCode::INVALID_ARGUMENT,
                      "INVALID_OPTION", "first message must hold the options"));
  EXPECT_TRUE(IsError(Send(server, {StartMessage({}), StartMessage({})}),
                      StatusCode::INVALID_ARGUMENT, "INVALID_OPTION", "only the first"));
  EXPECT_TRUE(
      IsError(Send(server, {StartMessage({})}), StatusCode::INVALID_ARGUMENT, "INVALID_IMAGE", ""));
}

TEST_F(InvalidTest, RequestIds) {
  TestServer server;
  for (const std::string& id : {std::string(129, 'a'), std::string("a b"), std::string("\x01")}) {
    auto request = StartMessage({});
    request.mutable_start()->set_request_id(id);
    EXPECT_TRUE(IsError(Send(server, {request}), StatusCode::INVALID_ARGUMENT, "INVALID_OPTION",
                        "request_id"));
  }
  auto request = StartMessage({});
  request.mutable_start()->set_request_id("0123-abc");
  request.mutable_start()->set_total_bytes(-1);
  const grpc::Status status = Send(server, {request});
  EXPECT_TRUE(IsError(status, StatusCode::INVALID_ARGUMENT, "INVALID_OPTION", "-1"));
  EXPECT_EQ(ErrorInfoOf(status)->metadata().at("request_id"), "0123-abc");
}

TEST_F(InvalidTest, SourcesBeyondTheLimits) {
  ServerConfig config = TestConfig();
  config.limits.max_source_bytes = 5000;
  config.limits.max_source_pixels = 900;
  config.limits.max_unary_bytes = 4000;
  TestServer server(config);

  grpc::Status status = UpscaleImage(server.stub(), pb::UpscaleOptions(), Png(31, 30)).status;
  EXPECT_TRUE(IsError(status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED", "930"));
  EXPECT_THAT(status.error_message(), HasSubstr("900"));
  EXPECT_THAT(status.error_message(), HasSubstr("max-source-pixels"));
  EXPECT_EQ(ErrorInfoOf(status)->metadata().at("limit"), "max-source-pixels");
  EXPECT_EQ(ErrorInfoOf(status)->metadata().at("value"), "930");
  EXPECT_EQ(ErrorInfoOf(status)->metadata().at("maximum"), "900");

  auto start = StartMessage({});
  start.mutable_start()->set_total_bytes(5001);
  status = Send(server, {start});
  EXPECT_TRUE(IsError(status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED", "5001"));
  EXPECT_THAT(status.error_message(), HasSubstr("5000"));

  // A PNG without an end: an ancillary chunk of 8000 bytes before the pixels.
  std::string image = Png(30, 30);
  const std::string filler = std::string("\0\0\x1f\x40teXt", 8) + std::string(8004, 'x');
  image.insert(33, filler);
  status =
      UpscaleImage(server.stub(), StartMessage({}).start(), image, absl::InfiniteDuration(), 1000)
          .status;
  EXPECT_TRUE(IsError(status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED", "5000"));

  pb::UpscaleRequest request;
  request.set_image(std::string(4001, 'x'));
  pb::UpscaleResponse response;
  grpc::ClientContext context;
  status = server.stub().Upscale(&context, request, &response);
  EXPECT_TRUE(IsError(status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED", "4001"));
  EXPECT_THAT(status.error_message(), HasSubstr("4000"));
}

// The budget is known to be too small for the image, even on an idle server.
TEST_F(InvalidTest, ImagesThatNeverFitTheMemory) {
  ServerConfig config = TestConfig();
  config.memory_budget_bytes = 48 << 20;
  TestServer server(config);
  pb::UpscaleOptions options;
  options.set_format(pb::IMAGE_FORMAT_WEBP);  // takes the whole result
  const grpc::Status status = UpscaleImage(server.stub(), options, Png(2000, 2000)).status;
  EXPECT_TRUE(IsError(status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED", "50331648"));
  EXPECT_EQ(ErrorInfoOf(status)->metadata().at("limit"), "memory-budget");
}

// No deadline is needed for it: no caller waits for hours, with any network.
TEST_F(InvalidTest, ImagesWhoseNetworksWouldComputeForTooLong) {
  ServerConfig config = TestConfig();
  config.limits.max_request_time = absl::Milliseconds(1);
  TestServer server(config);
  // The first image as well, when nothing has shown how fast the networks are.
  for (int i = 0; i < 2; ++i) {
    const grpc::Status status =
        UpscaleImage(server.stub(), pb::UpscaleOptions(), Png(1500, 1500)).status;
    EXPECT_TRUE(IsError(status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED", "limit of 1ms"));
    EXPECT_THAT(status.error_message(), HasSubstr("the networks would compute the image for "));
    EXPECT_EQ(ErrorInfoOf(status)->metadata().at("limit"), "max-request-time");
    pb::UpscaleOptions options;
    options.set_scale(1);  // no network runs
    EXPECT_TRUE(UpscaleImage(server.stub(), options, Png(8, 8)).status.ok());
  }
}

TEST_F(InvalidTest, Truncated) {
  TestServer server;
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kJpeg, ImageFormat::kWebp}) {
    const std::string image =
        *Encode(PhotoImage({80, 70, 3, SampleType::kU8}, random_).view(), {.format = format});
    const size_t length = RandomInt(random_, 1, static_cast<int>(image.size()) / 2);
    const Outcome outcome =
        UpscaleImage(server.stub(), pb::UpscaleOptions(), image.substr(0, length));
    EXPECT_TRUE(IsError(outcome.status, StatusCode::INVALID_ARGUMENT, "INVALID_IMAGE", ""))
        << FormatName(format) << " cut to " << length << " of " << image.size();
    EXPECT_FALSE(outcome.summary.has_value());
  }
}

TEST_F(InvalidTest, NoImageAtAll) {
  TestServer server;
  const grpc::Status status =
      UpscaleImage(server.stub(), pb::UpscaleOptions(), "8BPS of old times").status;
  EXPECT_TRUE(IsError(status, StatusCode::INVALID_ARGUMENT, "INVALID_IMAGE", "not a PNG"));
}

// The header of a PNG in need of 30 GB: refused from just these bytes.
TEST_F(InvalidTest, Bombs) {
  ServerConfig config = TestConfig();
  TestServer server(config);
  std::string image = Png(8, 8);
  image[16] = image[20] = 0;
  image[17] = image[21] = 1;
  image[18] = image[22] = '\x86';
  image[19] = image[23] = '\xa0';  // 100000 x 100000
  const uint32_t crc = [&] {
    uint32_t value = ~0u;
    for (int i = 12; i < 29; ++i) {
      value ^= static_cast<uint8_t>(image[i]);
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0xEDB88320u : 0);
    }
    return ~value;
  }();
  for (int i = 0; i < 4; ++i) image[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
  // The signature, IHDR and its CRC take 33 bytes. Before them there is no size.
  for (const size_t bytes : {size_t{29}, size_t{33}, image.size()}) {
    const grpc::Status status =
        UpscaleImage(server.stub(), pb::UpscaleOptions(), image.substr(0, bytes)).status;
    EXPECT_TRUE(IsError(status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED",
                        "10000000000 pixels (100000 x 100000); the limit is 100000000 "
                        "(max-source-pixels)"))
        << bytes << " bytes";
  }
}

TEST_F(InvalidTest, MetadataAndScansBeyondTheLimits) {
  ServerConfig config = TestConfig();
  config.limits.max_metadata_bytes = 5000;
  config.limits.max_jpeg_scans = 4;
  TestServer server(config);
  std::string image = Png(30, 30);
  image.insert(33, std::string("\0\0\x1f\x40teXt", 8) + std::string(8004, 'x'));
  grpc::Status status = UpscaleImage(server.stub(), pb::UpscaleOptions(), image).status;
  EXPECT_TRUE(IsError(status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED",
                      "the limit is 5000 (max-metadata-bytes)"));
  EXPECT_EQ(ErrorInfoOf(status)->metadata().at("limit"), "max-metadata-bytes");

  const std::string scans = test::ManyScansJpeg(5, random_);
  status = UpscaleImage(server.stub(), pb::UpscaleOptions(), scans).status;
  EXPECT_TRUE(IsError(status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED",
                      "at least 5 scans; the limit is 4 (max-jpeg-scans)"));
  EXPECT_EQ(ErrorInfoOf(status)->metadata().at("maximum"), "4");
}

TEST_F(InvalidTest, UnaryResultsThatNeedAStream) {
  ServerConfig config = TestConfig();
  config.limits.max_unary_bytes = 100'000;
  TestServer server(config);
  pb::UpscaleRequest request;
  request.set_image(*Encode(PhotoImage({400, 300, 3, SampleType::kU8}, random_).view(),
                            {.format = ImageFormat::kJpeg, .quality = 50}));
  ASSERT_LT(request.image().size(), 100'000u);
  request.mutable_options()->set_format(pb::IMAGE_FORMAT_PNG);
  request.mutable_options()->set_png_compression(0);
  pb::UpscaleResponse response;
  grpc::ClientContext context;
  const grpc::Status status = server.stub().Upscale(&context, request, &response);
  EXPECT_TRUE(IsError(status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED", "UpscaleImage"));
  EXPECT_EQ(server.gate().tiles_passed(), kWarmUpTiles) << "it is refused before it is computed";
}

TEST_F(InvalidTest, UnarySourcesThatNeedAStream) {
  ServerConfig config = TestConfig();
  config.limits.max_unary_bytes = 100'000;
  TestServer server(config);
  for (const size_t bytes : {size_t{100'001}, size_t{300'000}}) {  // the image, the message
    pb::UpscaleRequest request;
    request.set_image(std::string(bytes, 'x'));
    pb::UpscaleResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(IsError(server.stub().Upscale(&context, request, &response),
                        StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED", "UpscaleImage"))
        << bytes;
  }
}

}  // namespace
}  // namespace upscaled::server
