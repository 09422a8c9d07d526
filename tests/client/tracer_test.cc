#include "client/tracer.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_http_server.h"

namespace upscaled::client {
namespace {

namespace otlp = opentelemetry::proto;

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kTrace[] = "0af7651916cd43dd8448eb211c80319c";
constexpr char kParent[] = "b7ad6b7169203331";

std::string Traceparent(const std::string& flags = "01") {
  return absl::StrCat("00-", kTrace, "-", kParent, "-", flags);
}

class TracerTest : public ::testing::Test {
 protected:
  std::shared_ptr<Tracer> NewTracer(const std::string& path = "") {
    auto tracer = Tracer::Create(collector_.url() + path,
                                 [](const absl::Status& failure) { ADD_FAILURE() << failure; });
    EXPECT_TRUE(tracer.ok()) << tracer.status();
    return *tracer;
  }
  std::vector<otlp::Span> Spans() const {
    std::vector<otlp::Span> spans;
    for (const FakeHttpRequest& request : collector_.requests()) {
      otlp::ExportTraceServiceRequest message;
      EXPECT_TRUE(message.ParseFromString(request.body));
      EXPECT_EQ(message.resource_spans(0).resource().attributes(0).value().string_value(),
                "upscale");
      const auto& sent = message.resource_spans(0).scope_spans(0).spans();
      spans.insert(spans.end(), sent.begin(), sent.end());
    }
    return spans;
  }

  FakeHttpServer collector_{[](const FakeHttpRequest&) { return FakeAnswer("200 OK", "", ""); }};
};

TEST_F(TracerTest, AnOperationIsAChildOfItsCallersSpan) {
  std::string traceparent;
  {
    const auto tracer = NewTracer();
    OperationSpan span(tracer.get(), "UpscaleImage", "grpc", Traceparent());
    traceparent = span.traceparent();
    const absl::Status refused = absl::NotFoundError("no such model");
    EXPECT_EQ(span.End(refused, 2), refused);
  }
  const auto spans = Spans();
  ASSERT_EQ(spans.size(), 1u);
  const otlp::Span& span = spans[0];
  EXPECT_EQ(absl::BytesToHexString(span.trace_id()), kTrace);
  EXPECT_EQ(absl::BytesToHexString(span.parent_span_id()), kParent);
  EXPECT_EQ(traceparent,
            absl::StrCat("00-", kTrace, "-", absl::BytesToHexString(span.span_id()), "-01"));
  EXPECT_EQ(span.name(), "UpscaleImage");
  EXPECT_EQ(span.kind(), otlp::Span::SPAN_KIND_CLIENT);
  EXPECT_EQ(span.status().message(), "no such model");
  EXPECT_LE(span.start_time_unix_nano(), span.end_time_unix_nano());
  ASSERT_EQ(span.attributes_size(), 3);
  EXPECT_EQ(span.attributes(1).key(), "attempts");
  EXPECT_EQ(span.attributes(1).value().int_value(), 2);
  const auto requests = collector_.requests();
  EXPECT_EQ(requests[0].target, "/v1/traces");
  EXPECT_THAT(requests[0].header, HasSubstr("Content-Type: application/x-protobuf\r\n"));
}

TEST_F(TracerTest, WithoutAValidCallersSpanItBeginsATrace) {
  const std::vector<std::string> callers = {
      "", "garbage", absl::StrCat("ff", Traceparent().substr(2)),
      absl::StrCat("00-", std::string(32, '0'), "-", kParent, "-01"),
      absl::StrCat("00-", kTrace, "-", std::string(16, '0'), "-01")};
  {
    const auto tracer = NewTracer("/api/spans");
    for (const std::string& caller : callers) {
      const OperationSpan span(tracer.get(), "ListModels", "http", caller);
      EXPECT_THAT(span.traceparent(), StartsWith("00-"));
      EXPECT_EQ(span.traceparent().size(), Traceparent().size());
    }
  }
  const auto spans = Spans();
  EXPECT_EQ(spans.size(), callers.size());
  for (const otlp::Span& span : spans) {
    EXPECT_EQ(span.parent_span_id(), "");
    EXPECT_NE(absl::BytesToHexString(span.trace_id()), kTrace);
  }
  EXPECT_EQ(collector_.requests().at(0).target, "/api/spans");
}

TEST_F(TracerTest, CallersMayDecideAgainstIt) {
  {
    const auto tracer = NewTracer();
    const OperationSpan span(tracer.get(), "ListModels", "grpc", Traceparent("00"));
    EXPECT_EQ(span.traceparent(), Traceparent("00")) << "servers hear of the caller's decision";
  }
  EXPECT_EQ(Spans().size(), 0u);
}

TEST_F(TracerTest, ACollectorThatHangsHoldsNobodyUpForLong) {
  absl::Notification end;
  const FakeHttpServer hangs([&](const FakeHttpRequest&) {
    end.WaitForNotification();
    return std::string();
  });
  std::vector<absl::Status> failures;
  {
    const auto tracer = Tracer::Create(
        hangs.url(), [&](const absl::Status& failure) { failures.push_back(failure); });
    for (size_t i = 0; i < 2 * Tracer::kMaxWaiting; ++i) (*tracer)->Add(otlp::Span());
  }
  EXPECT_FALSE(failures.empty());
  for (const absl::Status& failure : failures)
    EXPECT_EQ(failure, absl::CancelledError("cancelled"));
  end.Notify();
}

TEST_F(TracerTest, AnAnswerThatIsNoSuccessLosesTheSpans) {
  const FakeHttpServer refuses(
      [](const FakeHttpRequest&) { return FakeAnswer("503 Service Unavailable", "", "full"); });
  std::vector<absl::Status> failures;
  {
    const auto tracer = Tracer::Create(
        refuses.url(), [&](const absl::Status& failure) { failures.push_back(failure); });
    (*tracer)->Add(otlp::Span());
  }
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(failures[0])) << failures[0];
  EXPECT_EQ(refuses.requests().size(), 1u) << "nothing is tried twice";
}

TEST_F(TracerTest, NeedsAUrl) {
  for (const char* const url : {"localhost:4318", "ftp://localhost", "http://localhost:port"}) {
    EXPECT_EQ(Tracer::Create(url, [](const absl::Status&) {}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << url;
  }
}

}  // namespace
}  // namespace upscaled::client
