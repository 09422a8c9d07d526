#include "server/telemetry/call_spans.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/interval.h"

namespace upscaled::server {
namespace {

namespace otlp = opentelemetry::proto;

template <typename Id>
std::string BytesOf(const Id& id) {
  return std::string(id.begin(), id.end());
}

otlp::AnyValue& AddAttribute(otlp::Span& span, const char* key) {
  otlp::KeyValue& attribute = *span.add_attributes();
  attribute.set_key(key);
  return *attribute.mutable_value();
}

void AddText(otlp::Span& span, const char* key, const std::string& text) {
  if (!text.empty()) AddAttribute(span, key).set_string_value(text);
}

void AddCount(otlp::Span& span, const char* key, int64_t count) {
  if (count != 0) AddAttribute(span, key).set_int_value(count);
}

void AddSize(otlp::Span& span, const char* key, Size size) {
  if (size != Size()) AddText(span, key, absl::StrCat(size.width, "x", size.height));
}

otlp::Span NewSpan(const TraceContext& trace, const SpanId& id, const char* name, Interval times) {
  otlp::Span span;
  span.set_trace_id(BytesOf(trace.trace_id));
  span.set_span_id(BytesOf(id));
  span.set_name(name);
  span.set_start_time_unix_nano(static_cast<uint64_t>(absl::ToUnixNanos(times.begin)));
  span.set_end_time_unix_nano(static_cast<uint64_t>(absl::ToUnixNanos(times.end)));
  return span;
}

otlp::Span CallSpan(const RequestRecord& record, Interval times) {
  otlp::Span span = NewSpan(record.trace, record.trace.span_id, record.method.c_str(), times);
  span.set_kind(otlp::Span::SPAN_KIND_SERVER);
  if (record.trace.parent_id != SpanId()) span.set_parent_span_id(BytesOf(record.trace.parent_id));
  AddText(span, "transport", record.transport);
  AddText(span, "request_id", record.request_id);
  AddText(span, "key", record.key);
  AddText(span, "tenant", record.tenant);
  AddText(span, "model", record.model);
  AddText(span, "device", record.device);
  AddSize(span, "source", record.source);
  AddSize(span, "result", record.result);
  AddCount(span, "tiles", record.tiles);
  AddCount(span, "cost", record.cost);
  AddCount(span, "received_bytes", record.received_bytes);
  AddCount(span, "sent_bytes", record.sent_bytes);
  AddText(span, "code", absl::StatusCodeToString(record.code));
  AddText(span, "limit", record.limit);
  if (record.code != absl::StatusCode::kOk) {
    span.mutable_status()->set_code(otlp::Status::STATUS_CODE_ERROR);
    span.mutable_status()->set_message(record.reason);
  }
  return span;
}

}  // namespace

std::vector<otlp::Span> SpansOf(const RequestRecord& record, absl::Time end) {
  const Interval call{end - record.total, end};
  std::vector<otlp::Span> spans = {CallSpan(record, call)};
  // The server's clock and the system's differ.
  const absl::Duration shift = call.begin - record.start;
  const auto add = [&](const char* name, const std::string& parent, const Interval& times) {
    // Work beyond its client's end is cut where the call ended.
    const Interval cut{std::clamp(times.begin + shift, call.begin, call.end),
                       std::clamp(times.end + shift, call.begin, call.end)};
    otlp::Span& span = spans.emplace_back(NewSpan(record.trace, NewSpanId(), name, cut));
    span.set_kind(otlp::Span::SPAN_KIND_INTERNAL);
    span.set_parent_span_id(parent);
    return spans.size() - 1;
  };
  const std::string call_id = spans[0].span_id();
  const auto add_stage = [&](const char* name, const Interval& stage, absl::Duration busy) {
    if (stage.empty()) return size_t{0};
    const size_t added = add(name, call_id, stage);
    AddAttribute(spans[added], "busy_ms").set_double_value(absl::ToDoubleMilliseconds(busy));
    return added;
  };
  add_stage("decode", record.stages.decode, record.decode);
  add_stage("queue", record.stages.queue, record.queue);
  add_stage("encode", record.stages.encode, record.encode);
  const size_t infer = add_stage("infer", record.stages.infer, record.infer);
  if (infer == 0) return spans;
  const std::vector<Interval>& tiles = record.stages.tiles;
  AddCount(spans[infer], "tiles_without_span",
           std::max<int64_t>(record.tiles - std::ssize(tiles), 0));
  const std::string infer_id = spans[infer].span_id();
  for (const Interval& tile : tiles) add("tile", infer_id, tile);
  return spans;
}

}  // namespace upscaled::server
