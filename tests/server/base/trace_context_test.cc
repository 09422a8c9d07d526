#include "server/base/trace_context.h"

#include <random>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

constexpr char kValid[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceContextTest, ReadsTraceparents) {
  const auto trace = ParseTraceparent(kValid);
  ASSERT_TRUE(trace.has_value());
  EXPECT_EQ(TraceIdText(*trace), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(trace->parent_id, (SpanId{0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31}));
  EXPECT_TRUE(trace->sampled);
  EXPECT_EQ(trace->span_id, SpanId());
}

TEST(TraceContextTest, OneFlagSaysSampled) {
  std::string text = kValid;
  for (const auto& [flags, sampled] : {std::pair("00", false),
                                       {"01", true},
                                       {"02", false},
                                       {"03", true},
                                       {"fe", false},
                                       {"ff", true}}) {
    text.replace(53, 2, flags);
    ASSERT_TRUE(ParseTraceparent(text).has_value()) << flags;
    EXPECT_EQ(ParseTraceparent(text)->sampled, sampled) << flags;
  }
}

TEST(TraceContextTest, LaterVersionsMaySayMore) {
  const std::string rest = std::string(kValid).substr(2);
  EXPECT_TRUE(ParseTraceparent("01" + rest).has_value());
  EXPECT_TRUE(ParseTraceparent("fe" + rest + "-what-the-future-holds").has_value());
  EXPECT_FALSE(ParseTraceparent("fe" + rest + "what").has_value());
  EXPECT_FALSE(ParseTraceparent("00" + rest + "-what").has_value());
  EXPECT_FALSE(ParseTraceparent("ff" + rest).has_value());
}

TEST(TraceContextTest, RefusesZeros) {
  std::string no_trace = kValid, no_parent = kValid;
  no_trace.replace(3, 32, std::string(32, '0'));
  no_parent.replace(36, 16, std::string(16, '0'));
  EXPECT_FALSE(ParseTraceparent(no_trace).has_value());
  EXPECT_FALSE(ParseTraceparent(no_parent).has_value());
}

TEST(TraceContextTest, RefusesWhatIsCutOrLonger) {
  const std::string valid = kValid;
  for (size_t size = 0; size < valid.size(); ++size) {
    EXPECT_FALSE(ParseTraceparent(valid.substr(0, size)).has_value()) << size;
  }
  for (const char* more : {" ", "0", "-", "-0"}) {
    EXPECT_FALSE(ParseTraceparent(valid + more).has_value()) << more;
  }
  EXPECT_FALSE(ParseTraceparent(" " + valid).has_value());
}

// Every place with every byte: only digits where there are digits, only dashes where there are.
TEST(TraceContextTest, RefusesEveryOtherCharacter) {
  for (size_t at = 0; at < sizeof(kValid) - 1; ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string text = kValid;
      text[at] = static_cast<char>(byte);
      const bool digit = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
      const bool expected = kValid[at] == '-' ? byte == '-' : digit;
      EXPECT_EQ(ParseTraceparent(text).has_value(), expected) << text << " at " << at;
    }
  }
}

TEST(TraceContextTest, ReadsBackWhatIsWritten) {
  std::mt19937 random{std::random_device{}()};
  constexpr char kDigits[] = "0123456789abcdef";
  for (int i = 0; i < 1000; ++i) {
    std::string text = kValid;
    for (size_t at = 3; at < text.size(); ++at) {
      if (text[at] != '-') text[at] = kDigits[random() % 16];
    }
    const auto trace = ParseTraceparent(text);
    ASSERT_TRUE(trace.has_value()) << text;
    EXPECT_EQ(TraceIdText(*trace), text.substr(3, 32));
    EXPECT_EQ(trace->sampled, (std::stoi(text.substr(53), nullptr, 16) & 1) == 1);
  }
}

TEST(TraceContextTest, BeginsATraceWhereNobodySaysOne) {
  std::set<std::string> ids;
  for (const char* text : {"", "garbage", "00-0af7"}) {
    const TraceContext trace = ContinueTrace(text, 1);
    EXPECT_TRUE(trace.sampled);
    EXPECT_NE(trace.span_id, SpanId());
    EXPECT_EQ(trace.parent_id, SpanId());
    EXPECT_EQ(TraceIdText(trace).size(), 32u);
    ids.insert(TraceIdText(trace));
  }
  EXPECT_EQ(ids.size(), 3u);
}

TEST(TraceContextTest, CallersDecideOnTheirTraces) {
  const TraceContext sampled = ContinueTrace(kValid, 0);
  EXPECT_TRUE(sampled.sampled);
  EXPECT_NE(sampled.span_id, sampled.parent_id);
  std::string text = kValid;
  text.back() = '0';
  EXPECT_FALSE(ContinueTrace(text, 1).sampled);
}

TEST(TraceContextTest, TheRatioIsOfTheTracesThatBeginHere) {
  int sampled = 0;
  for (int i = 0; i < 10'000; ++i) sampled += ContinueTrace("", 0.25).sampled;
  EXPECT_NEAR(sampled, 2500, 250);  // five and a half standard deviations
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(ContinueTrace("", 0).sampled);
}

TEST(TraceContextTest, WhereNothingIsTracedCallersTracesHaveTheirNames) {
  EXPECT_EQ(TraceIdText(ContinueTrace("", std::nullopt)), "");
  const TraceContext trace = ContinueTrace(kValid, std::nullopt);
  EXPECT_EQ(TraceIdText(trace), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(trace.span_id, SpanId());
}

}  // namespace
}  // namespace upscaled::server
