// Traces of calls over both interfaces, read back from a collector.
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client/http/http_client.h"
#include "client/tracer.h"
#include "client/upscale_client.h"
#include "opentelemetry/otlp_trace.pb.h"
#include "tests/client/fake_http_server.h"
#include "tests/client/temp_folder.h"
#include "tests/integration/http_answers.h"
#include "tests/integration/test_server.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

namespace otlp = opentelemetry::proto;

using client::FakeAnswer;
using client::FakeHttpRequest;
using client::FakeHttpServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTrace[] = "0af7651916cd43dd8448eb211c80319c";
constexpr char kParent[] = "b7ad6b7169203331";

std::string Hex(std::string_view bytes) {
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

class TraceTest : public ::testing::Test {
 protected:
  TraceTest() {
    config_.trace_endpoint = collector_.url();
    config_.audit_log = folder_ / "audit.log";
  }

  // The spans of all messages so far.
  std::vector<otlp::Span> Spans() const {
    std::vector<otlp::Span> spans;
    for (const FakeHttpRequest& request : collector_.requests()) {
      otlp::ExportTraceServiceRequest message;
      EXPECT_TRUE(message.ParseFromString(request.body));
      for (const otlp::Span& span : message.resource_spans(0).scope_spans(0).spans()) {
        spans.push_back(span);
      }
    }
    return spans;
  }
  // The spans of a call with one way to compute: the stages by name, the call itself by "", without
  // tiles.
  static std::map<std::string, otlp::Span> OneCall(const std::vector<otlp::Span>& spans) {
    std::map<std::string, otlp::Span> call;
    for (const otlp::Span& span : spans) {
      if (span.name() == "tile") continue;
      const bool is_call = span.kind() == otlp::Span::SPAN_KIND_SERVER;
      EXPECT_TRUE(call.emplace(is_call ? "" : span.name(), span).second) << span.name();
    }
    return call;
  }
  // The spans with this parent, by their names.
  static std::multimap<std::string, otlp::Span> ChildrenOf(const std::string& parent,
                                                           const std::vector<otlp::Span>& spans) {
    std::multimap<std::string, otlp::Span> children;
    for (const otlp::Span& span : spans) {
      if (span.parent_span_id() == parent) children.emplace(span.name(), span);
    }
    return children;
  }
  static const otlp::AnyValue* Attribute(const otlp::Span& span, std::string_view key) {
    for (const otlp::KeyValue& attribute : span.attributes()) {
      if (attribute.key() == key) return &attribute.value();
    }
    return nullptr;
  }
  enum class Door { kGrpc, kHttp };
  // The tiles of an image upscaled by a client with spans to the server's collector. All spans are
  // there when it returns.
  int64_t UpscaleByClient(Door door) {
    TestServer server(config_);
    const auto tracer = client::Tracer::Create(
        config_.trace_endpoint, [](const absl::Status& failure) { ADD_FAILURE() << failure; });
    EXPECT_TRUE(tracer.ok()) << tracer.status();
    std::unique_ptr<client::Service> service;
    if (door == Door::kGrpc) {
      service = std::make_unique<client::UpscaleClient>(
          server.channel(), client::RetryPolicy(), absl::InfiniteDuration(),
          client::RetryClock::Real(), "", Traceparent(), *tracer);
    } else {
      service = *client::HttpClient::Create(
          {.server = absl::StrCat("http://127.0.0.1:", server.server().http_port()),
           .traceparent = Traceparent(),
           .tracer = *tracer});
    }
    client::MemorySource source(image_);
    client::MemorySink sink;
    client::ImageObserver nobody;
    client::ImageRequest request;
    request.options.set_tile_px(128);
    const auto result = service->UpscaleImage(request, source, sink, nobody);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->header.tiles() : 0;
  }
  static void ExpectWithin(const otlp::Span& child, const otlp::Span& parent);
  // Client, server, stages and tiles, from the caller's span down.
  void ExpectOneTree(const std::vector<otlp::Span>& spans, const std::string& method,
                     int64_t tiles);

  grpc::Status Upscale(TestServer& server, const std::vector<std::string>& traceparents) {
    grpc::ClientContext context;
    for (const std::string& traceparent : traceparents) {
      context.AddMetadata("traceparent", traceparent);
    }
    pb::UpscaleRequest request;
    request.set_image(image_);
    pb::UpscaleResponse response;
    return server.stub().Upscale(&context, request, &response);
  }
  static std::string Traceparent(const std::string& flags = "01") {
    return absl::StrCat("00-", kTrace, "-", kParent, "-", flags);
  }

  FakeHttpServer collector_{[](const FakeHttpRequest&) { return FakeAnswer("200 OK", "", ""); }};
  std::mt19937 random_ = test::FreshRandom();
  // An image of several tiles, and bands of them.
  const std::string image_ =
      *test::Encode(test::RandomImage({300, 400, 3, SampleType::kU8}, random_).view(), {});
  client::TempFolder folder_;
  ServerConfig config_ = TestConfig();
};

void TraceTest::ExpectWithin(const otlp::Span& child, const otlp::Span& parent) {
  EXPECT_EQ(Hex(child.trace_id()), kTrace) << child.name();
  EXPECT_GE(child.start_time_unix_nano(), parent.start_time_unix_nano()) << child.name();
  EXPECT_LT(child.start_time_unix_nano(), child.end_time_unix_nano()) << child.name();
  EXPECT_LE(child.end_time_unix_nano(), parent.end_time_unix_nano()) << child.name();
}

void TraceTest::ExpectOneTree(const std::vector<otlp::Span>& spans, const std::string& method,
                              int64_t tiles) {
  const auto roots = ChildrenOf(absl::HexStringToBytes(kParent), spans);
  ASSERT_EQ(roots.size(), 1u);
  const otlp::Span& client = roots.begin()->second;
  EXPECT_EQ(Hex(client.trace_id()), kTrace);
  EXPECT_EQ(client.name(), "UpscaleImage");
  EXPECT_EQ(client.kind(), otlp::Span::SPAN_KIND_CLIENT);
  EXPECT_EQ(Attribute(client, "attempts")->int_value(), 1);
  const auto calls = ChildrenOf(client.span_id(), spans);
  ASSERT_EQ(calls.count(method), 1u);
  const otlp::Span& call = calls.find(method)->second;
  EXPECT_EQ(Hex(call.trace_id()), kTrace);
  EXPECT_EQ(call.kind(), otlp::Span::SPAN_KIND_SERVER);
  EXPECT_EQ(Attribute(call, "tiles")->int_value(), tiles);
  EXPECT_LE(client.start_time_unix_nano(), call.start_time_unix_nano());
  EXPECT_LT(call.start_time_unix_nano(), client.end_time_unix_nano());
  const auto stages = ChildrenOf(call.span_id(), spans);
  std::vector<std::string> names;
  for (const auto& [name, stage] : stages) {
    names.push_back(name);
    EXPECT_GT(Attribute(stage, "busy_ms")->double_value(), 0) << name;
    ExpectWithin(stage, call);
  }
  ASSERT_THAT(names, ElementsAre("decode", "encode", "infer", "queue"));
  const otlp::Span& infer = stages.find("infer")->second;
  const auto runs = ChildrenOf(infer.span_id(), spans);
  EXPECT_EQ(runs.count("tile"), static_cast<size_t>(tiles));
  for (const auto& [name, run] : runs) ExpectWithin(run, infer);
  EXPECT_EQ(1 + calls.size() + stages.size() + runs.size(), spans.size())
      << "the parents of some are not there";
}

TEST_F(TraceTest, AClientsImageIsOneTreeDownToItsTiles) {
  const int64_t tiles = UpscaleByClient(Door::kGrpc);
  ASSERT_GE(tiles, 8);
  ExpectOneTree(Spans(), "UpscaleImage", tiles);
}

TEST_F(TraceTest, AClientsImageOverHttpIsOneTreeAsWell) {
  const int64_t tiles = UpscaleByClient(Door::kHttp);
  ASSERT_GE(tiles, 8);
  ExpectOneTree(Spans(), "Upscale", tiles);
}

TEST_F(TraceTest, ACallIsASpanOfItsCallersTraceWithItsStagesInIt) {
  std::string log;
  {
    TestServer server(config_);
    EXPECT_TRUE(Upscale(server, {Traceparent()}).ok());
    log = server.log();
  }
  auto spans = OneCall(Spans());
  ASSERT_EQ(spans.size(), 5u);
  const otlp::Span& call = spans[""];
  EXPECT_EQ(call.name(), "Upscale");
  EXPECT_EQ(Hex(call.parent_span_id()), kParent);
  for (const char* stage : {"decode", "queue", "infer", "encode"}) {
    SCOPED_TRACE(stage);
    const otlp::Span& span = spans[stage];
    EXPECT_EQ(Hex(span.trace_id()), kTrace);
    EXPECT_EQ(span.parent_span_id(), call.span_id());
    EXPECT_LE(call.start_time_unix_nano(), span.start_time_unix_nano());
    EXPECT_LT(span.start_time_unix_nano(), span.end_time_unix_nano());
    EXPECT_LE(span.end_time_unix_nano(), call.end_time_unix_nano());
  }
  EXPECT_LT(spans["decode"].start_time_unix_nano(), spans["queue"].start_time_unix_nano());
  EXPECT_LE(spans["queue"].start_time_unix_nano(), spans["infer"].start_time_unix_nano());
  EXPECT_LE(spans["queue"].end_time_unix_nano(), spans["infer"].end_time_unix_nano());
  EXPECT_LT(spans["infer"].end_time_unix_nano(), spans["encode"].end_time_unix_nano());
  const double now_s = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  EXPECT_NEAR(static_cast<double>(call.end_time_unix_nano()) / 1e9, now_s, 600);
  EXPECT_THAT(log, HasSubstr(absl::StrCat("trace_id=", kTrace)));
  EXPECT_THAT(client::ReadText(config_.audit_log),
              HasSubstr(absl::StrCat("\"trace_id\":\"", kTrace, "\"")));
}

TEST_F(TraceTest, OverHttpAsWell) {
  {
    TestServer server(config_);
    const HttpFields fields = {{"Traceparent", Traceparent()}};
    EXPECT_EQ(Request(server.server().http_port(), "POST", "/v1/upscale", image_, fields).status,
              200);
  }
  auto spans = OneCall(Spans());
  EXPECT_EQ(spans.size(), 5u);
  EXPECT_EQ(Hex(spans[""].trace_id()), kTrace);
  EXPECT_EQ(Hex(spans[""].parent_span_id()), kParent);
}

TEST_F(TraceTest, CallersWithoutAValidTraceBeginOne) {
  const std::vector<std::vector<std::string>> callers = {
      {}, {"garbage"}, {Traceparent(), Traceparent()}, {Traceparent("0")}};
  for (const std::vector<std::string>& traceparents : callers) {
    TestServer server(config_);
    EXPECT_TRUE(Upscale(server, traceparents).ok());
  }
  size_t calls = 0;
  for (const otlp::Span& span : Spans()) {
    if (span.kind() != otlp::Span::SPAN_KIND_SERVER) continue;
    ++calls;
    EXPECT_EQ(span.parent_span_id(), "");
    EXPECT_NE(Hex(span.trace_id()), kTrace);
    EXPECT_EQ(span.trace_id().size(), 16u);
  }
  EXPECT_EQ(calls, callers.size());
}

TEST_F(TraceTest, CallersMayDecideAgainstIt) {
  {
    TestServer server(config_);
    EXPECT_TRUE(Upscale(server, {Traceparent("00")}).ok());
    EXPECT_THAT(server.log(), HasSubstr(absl::StrCat("trace_id=", kTrace)));
  }
  EXPECT_EQ(Spans().size(), 0u);
}

TEST_F(TraceTest, OffItNamesTheTracesOfCallersAlone) {
  config_.trace_endpoint.clear();
  TestServer server(config_);
  EXPECT_TRUE(Upscale(server, {}).ok());
  EXPECT_THAT(server.log(), Not(HasSubstr("trace_id=")));
  EXPECT_TRUE(Upscale(server, {Traceparent()}).ok());
  EXPECT_THAT(server.log(), HasSubstr(absl::StrCat("trace_id=", kTrace)));
}

TEST_F(TraceTest, ACallThatIsRefusedIsASpanOfItsOwn) {
  {
    TestServer server(config_);
    grpc::ClientContext context;
    pb::UpscaleRequest request;
    request.set_image("no image");
    pb::UpscaleResponse response;
    EXPECT_FALSE(server.stub().Upscale(&context, request, &response).ok());
  }
  const auto spans = Spans();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].status().code(), otlp::Status::STATUS_CODE_ERROR);
  EXPECT_EQ(spans[0].status().message(), "INVALID_IMAGE");
}

// The server's destructor expects no rest of a call.
TEST_F(TraceTest, ACollectorThatHangsStopsNeitherCallsNorTheEnd) {
  absl::Notification asked, end;
  const FakeHttpServer hangs([&](const FakeHttpRequest& request) {
    if (request.number == 1) asked.Notify();
    end.WaitForNotification();
    return std::string();
  });
  config_.trace_endpoint = hangs.url();
  {
    TestServer server(config_);
    EXPECT_TRUE(Upscale(server, {}).ok());
    asked.WaitForNotification();
    EXPECT_TRUE(Upscale(server, {}).ok());
    EXPECT_THAT(Request(server.server().admin_port(), "GET", "/metrics").body,
                HasSubstr("upscaled_trace_spans_total{outcome=\"exported\"} 0\n"));
  }
  end.Notify();
}

}  // namespace
}  // namespace upscaled::server
