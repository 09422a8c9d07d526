// Equal requests: computed once, named before they are computed, stored for later calls.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <set>
#include <string_view>

#include <gmock/gmock.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/files.h"
#include "engine/image/memory_io.h"
#include "server/results/digest.h"
#include "tests/integration/http_answers.h"
#include "tests/integration/test_server.h"
#include "tests/support/await.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

namespace fs = std::filesystem;
using grpc::StatusCode;
using test::Encode;
using test::FreshRandom;
using test::PhotoImage;

class ResultsTest : public ::testing::Test {
 protected:
  ~ResultsTest() override { fs::remove_all(folder_); }

  std::string Png(int width, int height) {
    return *Encode(PhotoImage({width, height, 3, SampleType::kU8}, random_).view(), {});
  }
  ServerConfig WithStore() const {
    ServerConfig config = TestConfig();
    config.result_cache = folder_;
    return config;
  }
  static pb::UpscaleOptions SmallTiles() {
    pb::UpscaleOptions options;
    options.set_tile_px(kTilePx);
    return options;
  }
  static std::string EtagOf(TestServer& server, const pb::UpscaleOptions& options,
                            const std::string& image) {
    const Outcome outcome = UpscaleImage(server.stub(), options, image);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    EXPECT_EQ(outcome.header->etag(), outcome.summary->etag());
    return outcome.header->etag();
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / absl::StrCat("stored.", getpid());
  std::mt19937 random_ = FreshRandom();
};

// Unary calls, all running at once.
class ManyCalls {
 public:
  ManyCalls(TestServer& server, const pb::UpscaleRequest& request, int count) : calls_(count) {
    constexpr int kCallsPerChannel = 50;
    for (int i = 0; i < count; ++i) {
      if (i % kCallsPerChannel == 0) {
        grpc::ChannelArguments arguments;
        arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
        stubs_.push_back(pb::UpscaleService::NewStub(server.NewChannel(arguments)));
      }
      Call& call = calls_[i];
      call.reader = stubs_.back()->AsyncUpscale(&call.context, request, &queue_);
      call.reader->Finish(&call.response, &call.status, &call);
    }
  }
  ~ManyCalls() { queue_.Shutdown(); }

  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<pb::UpscaleResponse>> reader;
    pb::UpscaleResponse response;
    grpc::Status status;
  };
  const std::vector<Call>& Finish() {
    void* tag = nullptr;
    bool ok = false;
    for (size_t i = 0; i < calls_.size(); ++i) EXPECT_TRUE(queue_.Next(&tag, &ok) && ok);
    return calls_;
  }

 private:
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<pb::UpscaleService::Stub>> stubs_;
  std::vector<Call> calls_;
};

TEST_F(ResultsTest, AThousandEqualRequestsAtOnceCostOneComputation) {
  constexpr int kCalls = 1000;
  ServerConfig config = TestConfig();
  config.limits.max_concurrent_requests = kCalls;
  config.limits.max_unary_bytes = 64 << 10;
  TestServer server(config);
  pb::UpscaleRequest request;
  request.set_image(Png(kTilePx, kTilePx));
  server.gate().Close();
  ManyCalls calls(server, request, kCalls);
  test::Await([&] { return server.server().result_counts().shared == kCalls - 1; });
  server.gate().Open();
  const auto& finished = calls.Finish();
  const pb::UpscaleResponse& first = finished.front().response;
  EXPECT_FALSE(first.header().etag().empty());
  for (const ManyCalls::Call& call : finished) {
    ASSERT_TRUE(call.status.ok()) << call.status.error_message();
    ASSERT_TRUE(call.response.image() == first.image());
    ASSERT_EQ(call.response.header().etag(), first.header().etag());
  }
  EXPECT_EQ(server.gate().tiles_passed(), kWarmUpTiles + first.header().tiles());
  EXPECT_EQ(server.server().result_counts().computed, 1);
}

// A stream with its tiles before the gate.
struct Waiting {
  grpc::ClientContext context;
  std::unique_ptr<ClientStream> stream;

  Waiting(TestServer& server, const pb::UpscaleOptions& options, const std::string& image)
      : Waiting(server.stub(), options, image) {}
  Waiting(pb::UpscaleService::Stub& stub, const pb::UpscaleOptions& options,
          const std::string& image)
      : stream(stub.UpscaleImage(&context)) {
    EXPECT_TRUE(stream->Write(StartMessage(options)));
    EXPECT_TRUE(stream->Write(ChunkMessage(image)));
    EXPECT_TRUE(stream->WritesDone());
  }
  Outcome Finish() {
    Outcome outcome;
    ReadToEnd(context, *stream, outcome);
    return outcome;
  }
};

TEST_F(ResultsTest, WhenTheFirstLeavesTheOthersLoseNothing) {
  TestServer server;
  const std::string image = Png(2 * kTilePx, kTilePx);
  server.gate().Close();
  Waiting first(server, SmallTiles(), image);
  server.gate().AwaitWaiting(2);
  Waiting second(server, SmallTiles(), image);
  test::Await([&] { return server.server().result_counts().shared == 1; });
  first.context.TryCancel();
  EXPECT_EQ(first.Finish().status.error_code(), StatusCode::CANCELLED);
  test::Await([&] { return server.server().admission_state().requests == 1; });
  server.gate().Open();
  const Outcome outcome = second.Finish();
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.header->result_width_px(), 4 * kTilePx);
  EXPECT_TRUE(test::Decode(outcome.image).ok());
  EXPECT_EQ(server.gate().tiles_passed(), kWarmUpTiles + 2);
}

// Another client's backlog does not hold up its images, too.
TEST_F(ResultsTest, AnImageInAnothersBacklogIsServedInTheCallersOwnTurn) {
  constexpr int kBacklog = 20;
  ServerConfig config = TestConfig();
  config.trusted_proxies = {"127.0.0.1"};
  config.limits.max_concurrent_requests = config.limits.max_requests_per_address = kBacklog + 2;
  TestServer server(config);
  std::vector<std::string> images;
  for (int i = 0; i < kBacklog; ++i) images.push_back(Png(kTilePx, 3 * kTilePx));
  server.gate().Close();
  const std::string target = absl::StrCat("/v1/upscale?tile_px=", kTilePx);
  const auto ask = [&](const std::string& image, const char* address) {
    return std::async(std::launch::async, [&server, &image, &target, address] {
      return Request(server.server().http_port(), "POST", target, image,
                     {{"X-Forwarded-For", address}});
    });
  };
  std::vector<std::future<HttpAnswer>> backlog;
  for (const std::string& image : images) backlog.push_back(ask(image, "203.0.113.1"));
  test::Await([&] { return server.server().result_counts().computed == kBacklog; });
  test::Await([&] { return server.server().tile_load().queued_tiles >= 2 * kBacklog; });
  std::future<HttpAnswer> other = ask(images.back(), "203.0.113.2");
  test::Await([&] { return server.server().result_counts().shared == 1; });
  // Three tiles of its own, as many of the backlog's, and the begun ones of the streams.
  const int64_t begin = server.gate().tiles_passed();
  for (int64_t passed = begin; passed < begin + 3 * kBacklog / 2;) {
    server.gate().Allow(1);
    test::Await([&] { return server.gate().tiles_passed() > passed; });
    passed = server.gate().tiles_passed();
  }
  const auto patience = std::chrono::seconds(20);
  EXPECT_EQ(other.wait_for(patience), std::future_status::ready) << "half of all tiles have passed";
  server.gate().Open();
  EXPECT_EQ(other.get().status, 200);
  for (std::future<HttpAnswer>& answer : backlog) EXPECT_EQ(answer.get().status, 200);
}

// A result computed whole though its client takes nothing.
TEST_F(ResultsTest, WhatWaitsForItsReaderIsReserved) {
  constexpr int kSidePx = 300;
  constexpr int64_t kResultPixels = int64_t{4} * kSidePx * kSidePx;
  ServerConfig config = TestConfig();
  config.output_ring_bytes = 128 << 10;
  config.spool_bytes = 0;  // it waits in memory
  TestServer server(config);
  grpc::ChannelArguments small_window;
  small_window.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  small_window.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 64 << 10);
  const auto stub = pb::UpscaleService::NewStub(server.NewChannel(small_window));
  const auto reserved = [&] { return server.server().admission_state().memory_bytes; };
  pb::UpscaleOptions options;
  options.set_png_compression(0);
  int64_t messages = 0;
  {
    grpc::ClientContext context;  // whose image does not come
    const auto stream = stub->UpscaleImage(&context);
    stream->Write(StartMessage(options));
    test::Await([&] { return server.server().admission_state().requests == 1; });
    messages = reserved();
    context.TryCancel();
    (void)stream->Finish();
    server.AwaitIdle();
  }
  const std::string image = Png(kSidePx, kSidePx);
  server.gate().Close();
  Waiting call(*stub, options, image);
  server.gate().AwaitWaiting(1);
  server.gate().Open();
  // The source, and the result as a flight keeps it.
  const int64_t held = static_cast<int64_t>(image.size()) + 8 * kResultPixels + (64 << 10);
  test::Await([&] { return reserved() == messages + held; });
  EXPECT_EQ(server.server().admission_state().queue_cost, 0);
  const Outcome outcome = call.Finish();
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_GT(outcome.image.size(), 3 * kResultPixels);
  server.AwaitIdle();
}

TEST_F(ResultsTest, WhenAllLeaveTheWorkStops) {
  TestServer server;
  const std::string image = Png(60 * kTilePx, kTilePx);
  server.gate().Close();
  Waiting first(server, SmallTiles(), image), second(server, SmallTiles(), image);
  test::Await([&] { return server.server().result_counts().shared == 1; });
  server.gate().AwaitWaiting(2);
  test::Await([&] { return server.server().tile_load().queued_tiles > 0; });
  first.context.TryCancel();
  second.context.TryCancel();
  EXPECT_EQ(first.Finish().status.error_code(), StatusCode::CANCELLED);
  EXPECT_EQ(second.Finish().status.error_code(), StatusCode::CANCELLED);
  test::Await([&] { return server.server().tile_load().queued_tiles == 0; });
  const int64_t running = server.server().tile_load().running_tiles;
  server.gate().Open();
  server.AwaitIdle();
  EXPECT_EQ(server.gate().tiles_passed(), kWarmUpTiles + running);
  EXPECT_LT(running, 60);
}

TEST_F(ResultsTest, EqualRequestsHaveOneName) {
  TestServer server;
  const std::string image = Png(60, 40);
  const std::string etag = EtagOf(server, {}, image);
  EXPECT_TRUE(IsHexDigest(etag));
  const auto with = [&](const std::function<void(pb::UpscaleOptions&)>& set) {
    pb::UpscaleOptions options;
    set(options);
    return EtagOf(server, options, image);
  };
  EXPECT_EQ(with([](auto& o) { o.set_model("general-2x"); }), etag);
  EXPECT_EQ(with([](auto& o) { o.set_noise_level(-1); }), etag);
  EXPECT_EQ(with([](auto& o) { o.set_scale(2); }), etag);
  EXPECT_EQ(with([](auto& o) { o.mutable_size()->set_width_px(120); }), etag);
  EXPECT_EQ(with([](auto& o) { o.set_format(pb::IMAGE_FORMAT_PNG); }), etag);
  EXPECT_EQ(with([](auto& o) { o.set_png_compression(2); }), etag);
  EXPECT_EQ(with([](auto& o) { o.set_keep_16_bit(true); }), etag);
  EXPECT_EQ(with([](auto& o) { o.set_precision(pb::PRECISION_EXACT); }), etag);
  EXPECT_EQ(with([](auto& o) { o.set_tile_px(32); }), etag);

  EXPECT_NE(with([](auto& o) { o.set_model("fast-2x"); }), etag);
  EXPECT_NE(with([](auto& o) { o.set_scale(3); }), etag);
  EXPECT_NE(with([](auto& o) { o.set_tta(true); }), etag);
  EXPECT_NE(with([](auto& o) { o.set_format(pb::IMAGE_FORMAT_JPEG); }), etag);
  EXPECT_NE(with([](auto& o) { o.set_png_compression(9); }), etag);
  // PNG has none: the answer has a warning of it, which the plain one lacks.
  EXPECT_NE(with([](auto& o) { o.set_quality(50); }), etag);
  EXPECT_NE(with([](auto& o) {
              o.mutable_prefilter()->set_sigma_space(1);
              o.mutable_prefilter()->set_sigma_range(9);
            }),
            etag);
  EXPECT_NE(EtagOf(server, {}, Png(60, 40)), etag);
}

// The effect of an option on the name of the result of an 8-bit RGB image in PNG.
enum class Effect { kNone, kChanges };

struct OptionCase {
  std::string_view field;
  Effect effect;
  std::function<void(pb::UpscaleOptions&)> set;
};

// Each field of UpscaleOptions: a new one fails this test until it is here, and so in RequestKey.
TEST_F(ResultsTest, EveryOptionOfTheContractIsInTheName) {
  using O = pb::UpscaleOptions;
  const OptionCase cases[] = {
      {"model", Effect::kChanges, [](O& o) { o.set_model("fast-2x"); }},
      {"noise_level", Effect::kChanges, [](O& o) { o.set_noise_level(1); }},
      {"scale", Effect::kChanges, [](O& o) { o.set_scale(3); }},
      {"size", Effect::kChanges, [](O& o) { o.mutable_size()->set_width_px(121); }},
      {"size", Effect::kChanges,
       [](O& o) {
         o.mutable_size()->set_width_px(60);
         o.mutable_size()->set_height_px(60);
         o.mutable_size()->set_fit(pb::FIT_COVER);
       }},
      {"tta", Effect::kChanges, [](O& o) { o.set_tta(true); }},
      {"seamless", Effect::kChanges, [](O& o) { o.set_seamless(true); }},
      {"format", Effect::kChanges, [](O& o) { o.set_format(pb::IMAGE_FORMAT_WEBP); }},
      {"quality", Effect::kChanges, [](O& o) { o.set_quality(50); }},  // by its warning
      {"png_compression", Effect::kChanges, [](O& o) { o.set_png_compression(9); }},
      {"keep_16_bit", Effect::kNone, [](O& o) { o.set_keep_16_bit(true); }},
      {"precision", Effect::kNone, [](O& o) { o.set_precision(pb::PRECISION_EXACT); }},
      {"tile_px", Effect::kNone, [](O& o) { o.set_tile_px(32); }},
      {"prefilter", Effect::kChanges,
       [](O& o) {
         o.mutable_prefilter()->set_sigma_space(1);
         o.mutable_prefilter()->set_sigma_range(9);
       }},
      {"auto_noise", Effect::kNone, [](O& o) { o.set_auto_noise(true); }},  // the default
      {"alpha", Effect::kNone, [](O& o) { o.set_alpha(pb::ALPHA_METHOD_RESAMPLE); }},
      {"alpha_colour", Effect::kNone, [](O& o) { o.set_alpha_colour(pb::ALPHA_COLOUR_KEEP); }},
      {"keep_colours", Effect::kChanges, [](O& o) { o.set_keep_colours(false); }},
      {"metadata", Effect::kChanges, [](O& o) { o.set_metadata(pb::METADATA_POLICY_STRIP); }},
      {"on_damage", Effect::kChanges, [](O& o) { o.set_on_damage(pb::DAMAGE_POLICY_FILL); }},
      {"frame", Effect::kNone, [](O& o) { o.set_frame(1); }},  // the only one
      {"depth", Effect::kChanges, [](O& o) { o.set_depth(pb::DEPTH_16); }},
      {"max_pixels", Effect::kChanges, [](O& o) { o.set_max_pixels(1000); }},
      {"no_enlarge", Effect::kChanges, [](O& o) { o.set_no_enlarge(true); }},
  };
  TestServer server;
  const std::string image = Png(60, 40);
  const std::string etag = EtagOf(server, {}, image);
  std::set<std::string_view> tried;
  for (const auto& [field, effect, set] : cases) {
    tried.insert(field);
    pb::UpscaleOptions options;
    set(options);
    EXPECT_EQ(EtagOf(server, options, image) == etag, effect == Effect::kNone) << field;
  }
  const google::protobuf::Descriptor& message = *pb::UpscaleOptions::descriptor();
  for (int i = 0; i < message.field_count(); ++i) {
    EXPECT_TRUE(tried.contains(message.field(i)->name())) << message.field(i)->name();
  }
}

TEST_F(ResultsTest, ChoicesAboutAlphaAreInTheNameOfAnImageWithAlpha) {
  TestServer server;
  const std::string image =
      *Encode(test::ArtImage({30, 20, 4, SampleType::kU8}, random_).view(), {});
  pb::UpscaleOptions resampled, kept;
  resampled.set_alpha(pb::ALPHA_METHOD_RESAMPLE);
  kept.set_alpha_colour(pb::ALPHA_COLOUR_KEEP);
  const std::set<std::string> names = {EtagOf(server, {}, image), EtagOf(server, resampled, image),
                                       EtagOf(server, kept, image)};
  EXPECT_EQ(names.size(), 3u);
}

TEST_F(ResultsTest, TheNoiseLevelThatSuitsAJpegIsInItsName) {
  TestServer server;
  const auto jpeg = [&](int quality) {
    return *Encode(test::PhotoImage({60, 40, 3, SampleType::kU8}, random_).view(),
                   {.format = ImageFormat::kJpeg, .quality = quality});
  };
  struct Case {
    int quality, level;
  };
  for (const Case& c : {Case{98, -1}, Case{85, 1}, Case{70, 2}, Case{40, 3}}) {
    const std::string image = jpeg(c.quality);
    const Outcome chosen = UpscaleImage(server.stub(), pb::UpscaleOptions(), image);
    ASSERT_TRUE(chosen.status.ok()) << chosen.status.error_message();
    EXPECT_EQ(chosen.header->has_noise_level(), c.level >= 0) << c.quality;
    if (c.level >= 0) {
      EXPECT_EQ(chosen.header->noise_level(), c.level) << c.quality;
    }
    pb::UpscaleOptions options;
    options.set_noise_level(c.level);
    EXPECT_EQ(EtagOf(server, options, image), chosen.header->etag()) << c.quality;
  }
}

// Warnings shown by the pixels only come with a stored result, too.
TEST_F(ResultsTest, AStoredResultKeepsTheWarningsOfItsPixels) {
  TestServer server(WithStore());
  const std::string jpeg = *Encode(test::PhotoImage({97, 61, 3, SampleType::kU8}, random_).view(),
                                   {.format = ImageFormat::kJpeg});
  const std::string cut = jpeg.substr(0, jpeg.size() / 2);
  const auto post = [&] {
    return Request(server.server().http_port(), "POST", "/v1/upscale?on_damage=fill", cut);
  };
  const HttpAnswer computed = post(), stored = post();
  EXPECT_EQ(computed.status, 200) << computed.body;
  EXPECT_EQ(server.server().result_counts().stored, 1);
  EXPECT_TRUE(stored.body == computed.body);
  EXPECT_THAT(stored.fields.at("Upscale-Warning"), HasSubstr("missing"));
}

TEST_F(ResultsTest, AStoredResultIsSentWithoutComputing) {
  const std::string image = Png(97, 61);
  Outcome computed;
  {
    TestServer server(WithStore());
    computed = UpscaleImage(server.stub(), pb::UpscaleOptions(), image);
    ASSERT_TRUE(computed.status.ok()) << computed.status.error_message();
    EXPECT_FALSE(computed.header->cached());
  }
  TestServer server(WithStore());  // another process would find it, too
  const int64_t tiles = server.gate().tiles_passed();
  const Outcome stored = UpscaleImage(server.stub(), pb::UpscaleOptions(), image);
  ASSERT_TRUE(stored.status.ok()) << stored.status.error_message();
  EXPECT_TRUE(stored.header->cached());
  EXPECT_EQ(stored.header->etag(), computed.header->etag());
  EXPECT_EQ(stored.header->result_width_px(), 194);
  EXPECT_NE(stored.header->request_id(), computed.header->request_id());
  EXPECT_EQ(stored.summary->result_bytes(), computed.summary->result_bytes());
  EXPECT_TRUE(stored.image == computed.image);
  EXPECT_EQ(server.gate().tiles_passed(), tiles);
  EXPECT_EQ(server.server().result_counts().stored, 1);

  pb::UpscaleRequest request;  // the other way in
  request.set_image(image);
  pb::UpscaleResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(server.stub().Upscale(&context, request, &response).ok());
  EXPECT_TRUE(response.header().cached());
  EXPECT_TRUE(response.image() == computed.image);
}

TEST_F(ResultsTest, AStoredResultNeedsNoPlaceInTheQueue) {
  const std::string image = Png(97, 61);
  TestServer server(WithStore());
  ASSERT_TRUE(UpscaleImage(server.stub(), pb::UpscaleOptions(), image).status.ok());
  server.gate().Close();  // the devices are busy
  Waiting other(server, SmallTiles(), Png(4 * kTilePx, kTilePx));
  server.gate().AwaitWaiting(2);
  EXPECT_TRUE(UpscaleImage(server.stub(), pb::UpscaleOptions(), image).header->cached());
  server.gate().Open();
  EXPECT_TRUE(other.Finish().status.ok());
}

TEST_F(ResultsTest, ADamagedResultIsComputedAgain) {
  const std::string image = Png(97, 61);
  Outcome computed;
  {
    TestServer server(WithStore());
    computed = UpscaleImage(server.stub(), pb::UpscaleOptions(), image);
  }
  const fs::path file = folder_ / "results" / computed.header->etag();
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(99).put('#').put('!');
  TestServer server(WithStore());
  const Outcome again = UpscaleImage(server.stub(), pb::UpscaleOptions(), image);
  EXPECT_FALSE(again.header->cached());
  EXPECT_TRUE(again.image == computed.image);
  EXPECT_THAT(server.log(), ::testing::HasSubstr("damaged"));
  EXPECT_TRUE(UpscaleImage(server.stub(), pb::UpscaleOptions(), image).header->cached());
}

TEST_F(ResultsTest, ADirectoryThatCannotBeUsedCostsTheCacheAlone) {
  ServerConfig config = TestConfig();
  config.result_cache = "/proc/no/such/place";
  TestServer server(config);
  EXPECT_TRUE(UpscaleImage(server.stub(), pb::UpscaleOptions(), Png(40, 30)).status.ok());
  EXPECT_THAT(server.log(), ::testing::HasSubstr("results are not stored"));
}

TEST_F(ResultsTest, WhoHasTheResultGetsNoBytes) {
  TestServer server;
  const std::string image = Png(60, 40);
  const Outcome whole = UpscaleImage(server.stub(), pb::UpscaleOptions(), image);
  const int64_t tiles = server.gate().tiles_passed();
  pb::UpscaleImageStart start;
  start.add_known_etags("another");
  start.add_known_etags(whole.header->etag());
  const Outcome known = UpscaleImage(server.stub(), start, image);
  ASSERT_TRUE(known.status.ok()) << known.status.error_message();
  EXPECT_TRUE(known.header->not_modified());
  EXPECT_EQ(known.header->etag(), whole.header->etag());
  EXPECT_EQ(known.header->channels(), whole.header->channels());
  EXPECT_EQ(known.image, "");
  EXPECT_EQ(server.gate().tiles_passed(), tiles);
}

// A caller with the digest need not have the image.
TEST_F(ResultsTest, WithoutKeysADigestFindsNothing) {
  TestServer server(WithStore());
  const std::string image = Png(60, 40);
  const Outcome whole = UpscaleImage(server.stub(), pb::UpscaleOptions(), image);
  pb::UpscaleImageStart start;
  start.set_source_sha256(std::string(AsText(DigestOf(AsBytes(image)))));
  for (const std::string& known : {std::string(), whole.header->etag()}) {
    if (!known.empty()) start.add_known_etags(known);
    const Outcome unsent = UpscaleImage(server.stub(), start, "");
    EXPECT_TRUE(IsError(unsent.status, StatusCode::INVALID_ARGUMENT, "INVALID_IMAGE",
                        "the image is not sent, and no result of"));
    EXPECT_FALSE(unsent.header.has_value());
  }
  const HttpAnswer over_http =
      Request(server.server().http_port(), "POST", "/v1/upscale", "",
              {{"Content-Digest",
                absl::StrCat("sha-256=:", absl::Base64Escape(start.source_sha256()), ":")}});
  EXPECT_EQ(over_http.status, 422) << over_http.body;
  start.clear_known_etags();
  EXPECT_TRUE(UpscaleImage(server.stub(), start, image).header->cached()) << "who has it gets it";
  start.set_source_sha256("short");
  EXPECT_TRUE(IsError(UpscaleImage(server.stub(), start, image).status,
                      StatusCode::INVALID_ARGUMENT, "INVALID_OPTION", "32"));
}

TEST_F(ResultsTest, ASourceWithoutItsDigestIsRefusedAndNotStored) {
  const std::string image = Png(200, 150), other = Png(60, 40);
  for (const int64_t held_bytes : {int64_t{4} << 20, int64_t{1000}}) {  // whole, as it comes
    ServerConfig config = WithStore();
    config.result_cache = folder_ / absl::StrCat(held_bytes);
    config.hold_source_bytes = held_bytes;
    TestServer server(config);
    pb::UpscaleImageStart start;
    start.set_source_sha256(std::string(AsText(DigestOf(AsBytes(other)))));
    for (const bool told : {true, false}) {
      start.set_total_bytes(told ? static_cast<int64_t>(image.size()) : 0);
      const Outcome wrong = UpscaleImage(server.stub(), start, image);
      EXPECT_TRUE(IsError(wrong.status, StatusCode::INVALID_ARGUMENT, "INVALID_OPTION", "SHA-256"));
    }
    const HttpAnswer over_http =
        Request(server.server().http_port(), "POST", "/v1/upscale", image,
                {{"Content-Digest",
                  absl::StrCat("sha-256=:", absl::Base64Escape(start.source_sha256()), ":")}});
    EXPECT_FALSE(over_http.status == 200 && over_http.whole);
    EXPECT_FALSE(UpscaleImage(server.stub(), pb::UpscaleOptions(), image).header->cached());
  }
}

TEST_F(ResultsTest, ALargeSourceIsNamedAtTheEnd) {
  const std::string image = Png(200, 150);
  Outcome held;
  {
    TestServer server;
    held = UpscaleImage(server.stub(), pb::UpscaleOptions(), image);
  }
  ServerConfig config = WithStore();
  config.hold_source_bytes = 1000;
  TestServer server(config);
  pb::UpscaleImageStart start;
  start.set_total_bytes(static_cast<int64_t>(image.size()));
  const Outcome streamed = UpscaleImage(server.stub(), start, image);
  ASSERT_TRUE(streamed.status.ok()) << streamed.status.error_message();
  EXPECT_EQ(streamed.header->etag(), "");
  EXPECT_EQ(streamed.summary->etag(), held.header->etag());
  EXPECT_TRUE(streamed.image == held.image);
  const std::string stored = absl::StrCat("/v1/results/", streamed.summary->etag());
  EXPECT_TRUE(Request(server.server().http_port(), "GET", stored).body == held.image);

  start.Clear();  // of unknown size: computed as it comes, too
  EXPECT_TRUE(UpscaleImage(server.stub(), start, image).image == held.image);
}

TEST_F(ResultsTest, AResultIsNamedWithoutItsPixels) {
  ServerConfig config = TestConfig();
  config.hold_source_bytes = 1000;  // the name of a larger one comes at the end otherwise
  TestServer server(config);
  const std::string image = Png(200, 150);
  pb::UpscaleImageStart start;
  start.mutable_options()->set_scale(3);
  start.set_total_bytes(static_cast<int64_t>(image.size()));
  const Outcome whole = UpscaleImage(server.stub(), start, image);
  const int64_t tiles = server.gate().tiles_passed();

  start.set_name_only(true);
  EXPECT_TRUE(IsError(UpscaleImage(server.stub(), start, image).status,
                      StatusCode::INVALID_ARGUMENT, "INVALID_OPTION", "source_sha256"));
  start.set_source_sha256(std::string(AsText(DigestOf(AsBytes(image)))));
  const Outcome named =
      UpscaleImage(server.stub(), start, std::string_view(image).substr(0, image.size() / 4));
  ASSERT_TRUE(named.status.ok()) << named.status.error_message();
  EXPECT_EQ(named.header->etag(), whole.summary->etag());
  EXPECT_EQ(named.summary->etag(), whole.summary->etag());
  EXPECT_EQ(named.header->result_width_px(), 600);
  EXPECT_FALSE(named.header->not_modified());
  EXPECT_EQ(named.image, "");
  start.mutable_options()->set_scale(2);
  EXPECT_NE(UpscaleImage(server.stub(), start, image).header->etag(), whole.summary->etag());
  start.set_total_bytes(0);
  EXPECT_TRUE(IsError(UpscaleImage(server.stub(), start, "no image").status,
                      StatusCode::INVALID_ARGUMENT, "INVALID_IMAGE", ""));
  EXPECT_EQ(server.gate().tiles_passed(), tiles);
}

TEST_F(ResultsTest, AnImageThatIsNoneIsEveryonesError) {
  TestServer server;
  std::string image = Png(60, 40);
  image.resize(image.size() / 2);
  EXPECT_TRUE(IsError(UpscaleImage(server.stub(), pb::UpscaleOptions(), image).status,
                      StatusCode::INVALID_ARGUMENT, "INVALID_IMAGE", ""));
}

}  // namespace
}  // namespace upscaled::server
