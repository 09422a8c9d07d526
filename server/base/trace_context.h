// The trace of a call, as W3C's Trace Context says it (https://www.w3.org/TR/trace-context).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace upscaled::server {

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

struct TraceContext {
  TraceId trace_id = {};  // zeros: none
  SpanId span_id = {};    // of the call; zeros: none is made
  SpanId parent_id = {};  // of who calls; zeros: the trace begins here
  bool sampled = false;   // the span is to be exported
};

// The caller's span as `parent_id`. nullopt unless the text is a traceparent of version 00, or of a
// later one with a beginning as in version 00 (section 3.2).
std::optional<TraceContext> ParseTraceparent(std::string_view text);

// The trace of a call with the caller's `traceparent`; an invalid one counts as absent. Where calls
// are traced, `ratio` of the traces begun here are sampled, and callers decide on theirs; where
// they are not (nullopt), callers' traces are named in logs, and none begins.
TraceContext ContinueTrace(std::string_view traceparent, std::optional<double> ratio);

SpanId NewSpanId();

// The id in 32 digits; "" without a trace.
std::string TraceIdText(const TraceContext& trace);

}  // namespace upscaled::server
