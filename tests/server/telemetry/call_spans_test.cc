#include "server/telemetry/call_spans.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

namespace otlp = opentelemetry::proto;

const absl::Time kEnd = absl::FromUnixMillis(1'790'000'000'000);

RequestRecord TracedCall() {
  RequestRecord record;
  record.transport = "grpc";
  record.method = "UpscaleImage";
  record.tenant = "shop";
  record.source = {30, 20};
  record.tiles = 3;
  record.trace = ContinueTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 0);
  // The server's clock is a year behind the system's.
  record.start = kEnd - absl::Hours(24 * 365);
  record.total = absl::Milliseconds(100);
  const auto at = [&](int ms) { return record.start + absl::Milliseconds(ms); };
  record.stages.decode = {at(5), at(40)};
  record.stages.queue = {at(10), at(50)};
  record.stages.infer = {at(12), at(80)};
  record.decode = absl::Milliseconds(7);
  record.infer = absl::Milliseconds(120);
  return record;
}

std::map<std::string, otlp::AnyValue> AttributesOf(const otlp::Span& span) {
  std::map<std::string, otlp::AnyValue> attributes;
  for (const otlp::KeyValue& attribute : span.attributes()) {
    attributes[attribute.key()] = attribute.value();
  }
  return attributes;
}

TEST(CallSpansTest, TheCallIsTheParentOfItsStages) {
  const auto spans = SpansOf(TracedCall(), kEnd);
  ASSERT_EQ(spans.size(), 4u);
  const otlp::Span& call = spans[0];
  EXPECT_EQ(call.name(), "UpscaleImage");
  EXPECT_EQ(call.kind(), otlp::Span::SPAN_KIND_SERVER);
  EXPECT_EQ(call.trace_id(), "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c");
  EXPECT_EQ(call.parent_span_id(), "\xb7\xad\x6b\x71\x69\x20\x33\x31");
  EXPECT_EQ(call.span_id().size(), 8u);
  EXPECT_EQ(call.end_time_unix_nano(), absl::ToUnixNanos(kEnd));
  EXPECT_EQ(call.start_time_unix_nano(), absl::ToUnixNanos(kEnd - absl::Milliseconds(100)));
  auto attributes = AttributesOf(call);
  EXPECT_EQ(attributes["tenant"].string_value(), "shop");
  EXPECT_EQ(attributes["source"].string_value(), "30x20");
  EXPECT_EQ(attributes["tiles"].int_value(), 3);
  EXPECT_EQ(attributes["code"].string_value(), "OK");
  EXPECT_FALSE(attributes.contains("key"));
  for (size_t i = 1; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].parent_span_id(), call.span_id());
    EXPECT_EQ(spans[i].trace_id(), call.trace_id());
    EXPECT_NE(spans[i].span_id(), call.span_id());
    EXPECT_EQ(spans[i].kind(), otlp::Span::SPAN_KIND_INTERNAL);
  }
}

TEST(CallSpansTest, StagesAreWhereTheyWereOfTheCall) {
  const auto spans = SpansOf(TracedCall(), kEnd);
  ASSERT_EQ(spans.size(), 4u);
  const auto offset_ms = [&](uint64_t nanos) {
    return static_cast<double>(nanos - spans[0].start_time_unix_nano()) / 1e6;
  };
  EXPECT_EQ(spans[1].name(), "decode");
  EXPECT_EQ(offset_ms(spans[1].start_time_unix_nano()), 5);
  EXPECT_EQ(offset_ms(spans[1].end_time_unix_nano()), 40);
  EXPECT_EQ(AttributesOf(spans[1])["busy_ms"].double_value(), 7);
  EXPECT_EQ(spans[2].name(), "queue");
  EXPECT_EQ(offset_ms(spans[2].end_time_unix_nano()), 50);
  EXPECT_EQ(spans[3].name(), "infer");
  EXPECT_EQ(offset_ms(spans[3].end_time_unix_nano()), 80);
  EXPECT_EQ(AttributesOf(spans[3])["busy_ms"].double_value(), 120);
}

TEST(CallSpansTest, TilesAreWithinComputing) {
  RequestRecord record = TracedCall();
  const Interval infer = record.stages.infer;
  const absl::Time middle = infer.begin + absl::Milliseconds(20);
  record.stages.tiles = {{infer.begin, middle}, {middle, infer.end}};
  const auto spans = SpansOf(record, kEnd);
  ASSERT_EQ(spans.size(), 6u);
  EXPECT_EQ(AttributesOf(spans[3])["tiles_without_span"].int_value(), 1) << "of the three";
  for (const size_t i : {4, 5}) {
    EXPECT_EQ(spans[i].name(), "tile");
    EXPECT_EQ(spans[i].parent_span_id(), spans[3].span_id());
    EXPECT_EQ(spans[i].trace_id(), spans[0].trace_id());
  }
  EXPECT_EQ(spans[4].start_time_unix_nano(), spans[3].start_time_unix_nano());
  EXPECT_EQ(spans[4].end_time_unix_nano(), spans[5].start_time_unix_nano());
  EXPECT_EQ(spans[5].end_time_unix_nano(), spans[3].end_time_unix_nano());
}

TEST(CallSpansTest, NoStageIsLongerThanItsCall) {
  RequestRecord record = TracedCall();
  record.stages.infer.end = record.start + absl::Seconds(9);
  record.stages.encode = {record.start + absl::Seconds(8), record.start + absl::Seconds(9)};
  const auto spans = SpansOf(record, kEnd);
  ASSERT_EQ(spans.size(), 5u);
  for (const otlp::Span& span : spans) {
    EXPECT_GE(span.start_time_unix_nano(), spans[0].start_time_unix_nano());
    EXPECT_LE(span.start_time_unix_nano(), span.end_time_unix_nano());
    EXPECT_LE(span.end_time_unix_nano(), spans[0].end_time_unix_nano());
  }
}

TEST(CallSpansTest, ACallThatFailsSaysWhy) {
  RequestRecord record;
  record.method = "Upscale";
  record.code = absl::StatusCode::kResourceExhausted;
  record.reason = "OVERLOADED";
  record.limit = "max-queue-pixels";
  record.trace = ContinueTrace("", 1);
  const auto spans = SpansOf(record, kEnd);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].status().code(), otlp::Status::STATUS_CODE_ERROR);
  EXPECT_EQ(spans[0].status().message(), "OVERLOADED");
  EXPECT_EQ(AttributesOf(spans[0])["limit"].string_value(), "max-queue-pixels");
  EXPECT_EQ(spans[0].parent_span_id(), "");
}

}  // namespace
}  // namespace upscaled::server
