#include "server/telemetry/trace_exporter.h"

#include <atomic>
#include <string>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_http_server.h"
#include "tests/support/await.h"

namespace upscaled::server {
namespace {

namespace otlp = opentelemetry::proto;

using client::FakeAnswer;
using client::FakeHttpRequest;
using client::FakeHttpServer;
using ::testing::HasSubstr;

const absl::Time kCallEnd = absl::FromUnixMillis(1'790'000'000'000);

RequestRecord SampledCall() {
  RequestRecord record;
  record.method = "Upscale";
  record.trace = ContinueTrace("", 1);
  return record;
}

std::string TakesAll(const FakeHttpRequest&) { return FakeAnswer("200 OK", "", ""); }

class TraceExporterTest : public ::testing::Test {
 protected:
  std::unique_ptr<TraceExporter> Start(const std::string& url) {
    const auto on_failure = [this](int64_t spans, const absl::Status& reason) {
      told_ += spans;
      reason_ = std::string(reason.message());
    };
    return std::make_unique<TraceExporter>(
        timer_, TraceExporterOptions{.url = url, .version = "1.2.3", .on_failure = on_failure});
  }

  Timer timer_;
  int64_t told_ = 0;  // by the exporter's thread; to be read when that is gone
  std::string reason_;
};

TEST_F(TraceExporterTest, PostsWhatACollectorReads) {
  const FakeHttpServer collector(TakesAll);
  Start(collector.url())->Add(SampledCall(), kCallEnd);
  ASSERT_EQ(collector.requests().size(), 1u);
  const FakeHttpRequest request = collector.requests().front();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/v1/traces");
  EXPECT_THAT(request.header, HasSubstr("Content-Type: application/x-protobuf\r\n"));
  otlp::ExportTraceServiceRequest message;
  ASSERT_TRUE(message.ParseFromString(request.body));
  const otlp::ResourceSpans& spans = message.resource_spans(0);
  EXPECT_EQ(spans.resource().attributes(0).key(), "service.name");
  EXPECT_EQ(spans.resource().attributes(0).value().string_value(), "upscaled");
  EXPECT_EQ(spans.resource().attributes(1).value().string_value(), "1.2.3");
  EXPECT_EQ(spans.scope_spans(0).spans(0).name(), "Upscale");
  EXPECT_EQ(told_, 0);
}

// A reader with only the specification reads the same: field numbers and wire types of a span.
TEST_F(TraceExporterTest, NumbersFieldsAsTheSpecificationDoes) {
  otlp::Span span;
  span.set_trace_id("t");
  span.set_span_id("s");
  span.set_parent_span_id("p");
  span.set_name("n");
  span.set_kind(otlp::Span::SPAN_KIND_SERVER);
  span.set_start_time_unix_nano(1);
  span.set_end_time_unix_nano(2);
  otlp::KeyValue& attribute = *span.add_attributes();
  attribute.set_key("k");
  attribute.mutable_value()->set_int_value(5);
  span.mutable_status()->set_message("m");
  span.mutable_status()->set_code(otlp::Status::STATUS_CODE_ERROR);
  EXPECT_EQ(span.SerializeAsString(),
            std::string("\x0a\x01t\x12\x01s\x22\x01p\x2a\x01n\x30\x02"
                        "\x39\x01\0\0\0\0\0\0\0\x41\x02\0\0\0\0\0\0\0"
                        "\x4a\x07\x0a\x01k\x12\x02\x18\x05\x7a\x05\x12\x01m\x18\x02",
                        48));
}

TEST_F(TraceExporterTest, PostsToTheWholeUrlWhereThereIsAPath) {
  const FakeHttpServer collector(TakesAll);
  Start(collector.url() + "/")->Add(SampledCall(), kCallEnd);
  Start(collector.url() + "/otlp")->Add(SampledCall(), kCallEnd);
  ASSERT_EQ(collector.requests().size(), 2u);
  EXPECT_EQ(collector.requests()[0].target, "/v1/traces");
  EXPECT_EQ(collector.requests()[1].target, "/otlp");
}

TEST_F(TraceExporterTest, SendsWithoutBeingTold) {
  const FakeHttpServer collector(TakesAll);
  const auto exporter = Start(collector.url());
  exporter->Add(SampledCall(), kCallEnd);
  test::Await([&] { return exporter->counts().exported >= 1; });
}

TEST_F(TraceExporterTest, WhatIsNotSampledStaysHere) {
  const FakeHttpServer collector(TakesAll);
  RequestRecord record = SampledCall();
  record.trace = ContinueTrace("", 0);
  Start(collector.url())->Add(record, kCallEnd);
  EXPECT_EQ(collector.requests().size(), 0u);
}

TEST_F(TraceExporterTest, WhatACollectorRefusesIsToldAndNotTriedAgain) {
  const FakeHttpServer collector(
      [](const FakeHttpRequest&) { return FakeAnswer("503 Service Unavailable", "", ""); });
  Start(collector.url())->Add(SampledCall(), kCallEnd);
  EXPECT_EQ(collector.requests().size(), 1u);
  EXPECT_EQ(told_, 1);
  EXPECT_EQ(reason_, "it answered 503");
}

TEST_F(TraceExporterTest, APartOfThemMayBeRefused) {
  otlp::ExportTraceServiceResponse response;
  response.mutable_partial_success()->set_rejected_spans(2);
  const FakeHttpServer collector([&](const FakeHttpRequest&) {
    return FakeAnswer("200 OK", "", response.SerializeAsString());
  });
  {
    const auto exporter = Start(collector.url());
    for (int i = 0; i < 3; ++i) exporter->Add(SampledCall(), kCallEnd);
  }
  EXPECT_GE(told_, 2);
  EXPECT_LE(told_, 3);  // when the three went by two messages
}

TEST_F(TraceExporterTest, ACollectorThatIsNotThereCostsSpansAlone) {
  std::string url;
  {
    const FakeHttpServer gone(TakesAll);
    url = gone.url();
  }
  Start(url)->Add(SampledCall(), kCallEnd);
  EXPECT_EQ(told_, 1);
}

// It takes a message and never answers: calls go on, spans are dropped, and the end comes.
TEST_F(TraceExporterTest, ACollectorThatHangsHoldsNobodyUp) {
  absl::Notification asked, end;
  std::atomic<int> requests = 0;
  const FakeHttpServer collector([&](const FakeHttpRequest&) {
    if (++requests == 1) asked.Notify();
    end.WaitForNotification();
    return std::string();
  });
  auto exporter = Start(collector.url());
  exporter->Add(SampledCall(), kCallEnd);
  asked.WaitForNotification();
  constexpr int64_t kMore = 3;
  const auto waiting = static_cast<int64_t>(TraceExporter::kMaxWaiting);
  for (int64_t i = 0; i < waiting + kMore; ++i) exporter->Add(SampledCall(), kCallEnd);
  EXPECT_EQ(exporter->counts().dropped, kMore);
  exporter.reset();
  EXPECT_EQ(told_, 1 + waiting);
  EXPECT_EQ(reason_, "it did not answer in time");
  end.Notify();
}

}  // namespace
}  // namespace upscaled::server
