#include "server/base/trace_context.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "absl/random/random.h"
#include "absl/strings/escaping.h"

namespace upscaled::server {
namespace {

// "00-", 32 digits, "-", 16 digits, "-", 2 digits.
constexpr size_t kVersion00Bytes = 55;
constexpr uint8_t kNoVersion = 0xff;
constexpr uint8_t kSampledFlag = 1;

bool IsZero(std::span<const uint8_t> bytes) {
  return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; });
}

// Only lower-case digits, as in the specification.
std::optional<uint8_t> DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return std::nullopt;
}

// Takes the digits of all of `bytes` off `text`, of as many characters.
bool TakeHex(std::string_view& text, std::span<uint8_t> bytes) {
  for (uint8_t& byte : bytes) {
    const std::optional<uint8_t> high = DigitOf(text[0]), low = DigitOf(text[1]);
    if (!high || !low) return false;
    byte = static_cast<uint8_t>(*high << 4 | *low);
    text.remove_prefix(2);
  }
  return true;
}

bool TakeDash(std::string_view& text) {
  const bool dash = text.front() == '-';
  text.remove_prefix(1);
  return dash;
}

template <size_t kBytes>
std::array<uint8_t, kBytes> RandomId() {
  absl::BitGen random;
  std::array<uint8_t, kBytes> id = {};
  do {
    for (uint8_t& byte : id) byte = absl::Uniform<uint8_t>(random);
  } while (IsZero(id));
  return id;
}

// Every server with the same ratio samples the same traces.
bool IsSampled(const TraceId& id, double ratio) {
  uint64_t bits = 0;
  std::memcpy(&bits, id.data() + 8, sizeof(bits));
  return static_cast<double>(bits >> 11) * 0x1p-53 < ratio;
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view text) {
  if (text.size() < kVersion00Bytes) return std::nullopt;
  uint8_t version = 0, flags = 0;
  TraceContext trace;
  const bool well_formed = TakeHex(text, {&version, 1}) && TakeDash(text) &&
                           TakeHex(text, trace.trace_id) && TakeDash(text) &&
                           TakeHex(text, trace.parent_id) && TakeDash(text) &&
                           TakeHex(text, {&flags, 1});
  if (!well_formed || version == kNoVersion) return std::nullopt;
  if (!text.empty() && (version == 0 || text.front() != '-')) return std::nullopt;
  if (IsZero(trace.trace_id) || IsZero(trace.parent_id)) return std::nullopt;
  trace.sampled = (flags & kSampledFlag) != 0;
  return trace;
}

TraceContext ContinueTrace(std::string_view traceparent, std::optional<double> ratio) {
  TraceContext trace;
  if (const auto parent = ParseTraceparent(traceparent)) {
    trace = *parent;
  } else if (ratio.has_value()) {
    trace.trace_id = RandomId<16>();
    trace.sampled = IsSampled(trace.trace_id, *ratio);
  }
  if (ratio.has_value()) trace.span_id = NewSpanId();
  return trace;
}

SpanId NewSpanId() { return RandomId<8>(); }

std::string TraceIdText(const TraceContext& trace) {
  if (IsZero(trace.trace_id)) return "";
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(trace.trace_id.data()), trace.trace_id.size()));
}

}  // namespace upscaled::server
