#include "server/net/http2_guard.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "tests/server/net/http2_frames.h"

namespace upscaled::server {
namespace {

using std::string_literals::operator""s;

class Http2GuardTest : public ::testing::Test {
 protected:
  std::optional<Offence> Send(std::string_view bytes) {
    return guard_->OnReceived({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, now_);
  }
  // The first offence of `count` times the same frame.
  std::optional<Offence> Repeat(int count, const std::string& frame) {
    for (int i = 0; i < count; ++i) {
      if (const auto offence = Send(frame)) return offence;
    }
    return std::nullopt;
  }
  static std::string Call() {
    return Frame(kHeadersFrame, kEndHeadersFlag, 100) + Frame(kDataFrame, kEndStreamFlag, 10);
  }

  std::optional<Offence> Answer(std::string_view bytes) {
    return guard_->OnSent({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  }
  bool Take(CallFault fault) { return ++faults_[static_cast<size_t>(fault)] <= kMaxFaults; }

  static constexpr int kMaxFaults = 10;
  absl::Time now_ = absl::UnixEpoch();
  std::array<int, kCallFaults> faults_ = {};
  const Http2Limits limits_{.max_header_block_bytes = 1000,
                            .max_control_frame_bytes = 500,
                            .control_frames = {.per_second = 10, .burst = 100}};
  std::optional<Http2Guard> guard_{std::in_place, limits_,
                                   [this](CallFault fault) { return Take(fault); }, now_};
};

TEST_F(Http2GuardTest, TakesAnOrdinaryClient) {
  std::string bytes = Preface() + Frame(kSettingsFrame, 0, 24, 0);
  for (int i = 0; i < 1000; ++i) {
    bytes += Call() + Frame(kWindowFrame, 0, 4, 0) + Frame(kPingFrame, 0, 8, 0);
  }
  EXPECT_EQ(Send(bytes), std::nullopt);
  EXPECT_EQ(guard_->missing_preface_bytes(), 0u);
}

TEST_F(Http2GuardTest, FindsFramesHoweverTheBytesAreCut) {
  std::mt19937 random(7);
  std::string bytes = Preface();
  for (int i = 0; i < 50; ++i) bytes += Call() + Frame(kDataFrame, 0, i * 37);
  for (int i = 0; i < 10; ++i) bytes += Frame(kResetFrame, 0, 4);
  const std::string one_too_many = Frame(kResetFrame, 0, 4);
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t n = std::uniform_int_distribution<size_t>(1, 12)(random);
    ASSERT_EQ(Send(std::string_view(bytes).substr(at, n)), std::nullopt) << at;
    at += n;
  }
  for (size_t i = 0; i + 1 < 9; ++i) ASSERT_EQ(Send(one_too_many.substr(i, 1)), std::nullopt);
  EXPECT_EQ(Send(one_too_many.substr(8, 1)), Offence::kResets);
}

TEST_F(Http2GuardTest, TakesThePrefaceByteByByteAndNothingElse) {
  const std::string preface = Preface();
  for (size_t i = 0; i + 1 < preface.size(); ++i) {
    ASSERT_EQ(Send(preface.substr(i, 1)), std::nullopt);
    ASSERT_EQ(guard_->missing_preface_bytes(), preface.size() - i - 1);
  }
  EXPECT_EQ(Send("\r"), Offence::kHandshake);
}

TEST_F(Http2GuardTest, RefusesOtherProtocols) {
  EXPECT_EQ(Send("GET / HTTP/1.1\r\n\r\n"), Offence::kHandshake);
}

TEST_F(Http2GuardTest, BoundsAHeaderBlockOverAllItsFrames) {
  ASSERT_EQ(Send(Preface() + Frame(kHeadersFrame, kEndHeadersFlag, 991)), std::nullopt);
  ASSERT_EQ(Send(Frame(kHeadersFrame, kEndHeadersFlag, 991)), std::nullopt) << "each its own";
  ASSERT_EQ(Send(Frame(kHeadersFrame, 0, 500)), std::nullopt);
  ASSERT_EQ(Send(Frame(kContinuationFrame, 0, 400)), std::nullopt);
  EXPECT_EQ(Send(Frame(kContinuationFrame, 0, 100)), Offence::kHeaderBytes);
}

TEST_F(Http2GuardTest, BoundsEmptyContinuations) {
  ASSERT_EQ(Send(Preface() + Frame(kHeadersFrame, 0, 10)), std::nullopt);
  EXPECT_EQ(Repeat(1000, Frame(kContinuationFrame, 0, 0)), Offence::kHeaderBytes);
}

TEST_F(Http2GuardTest, RefusesAHeaderBlockBeforeItsPayloadHasCome) {
  EXPECT_EQ(Send(Preface() + Frame(kHeadersFrame, 0, 5000).substr(0, 9)), Offence::kHeaderBytes);
}

TEST_F(Http2GuardTest, TakesContinuationsInAHeaderBlockAlone) {
  EXPECT_EQ(Send(Preface() + Frame(kContinuationFrame, kEndHeadersFlag, 1)), Offence::kFrame);
}

TEST_F(Http2GuardTest, TakesNothingElseInAHeaderBlock) {
  EXPECT_EQ(Send(Preface() + Frame(kHeadersFrame, 0, 1) + Frame(kDataFrame, 0, 1)),
            Offence::kFrame);
}

TEST_F(Http2GuardTest, BoundsOtherFramesButNotData) {
  EXPECT_EQ(Send(Preface() + Frame(kDataFrame, 0, 1 << 20)), std::nullopt);
  EXPECT_EQ(Send(Frame(kSettingsFrame, 0, 501, 0)), Offence::kFrame);
}

TEST_F(Http2GuardTest, AsksForEveryReset) {
  ASSERT_EQ(Send(Preface()), std::nullopt);
  EXPECT_EQ(Repeat(10, Call() + Frame(kResetFrame, 0, 4)), std::nullopt);
  EXPECT_EQ(Send(Call() + Frame(kResetFrame, 0, 4)), Offence::kResets);
}

TEST_F(Http2GuardTest, LimitsFramesThatCarryNothing) {
  for (const std::string& frame :
       {Frame(kPingFrame, 0, 8, 0), Frame(kSettingsFrame, 0, 0, 0), Frame(kPriorityFrame, 0, 5),
        Frame(kWindowFrame, 0, 4), Frame(kDataFrame, 0, 0), Frame(0x42, 0, 0)}) {
    guard_.emplace(
        limits_, [](CallFault) { return true; }, now_);
    ASSERT_EQ(Send(Preface()), std::nullopt);
    EXPECT_EQ(Repeat(100, frame), std::nullopt);
    EXPECT_EQ(Repeat(100, frame), Offence::kControlFrames) << static_cast<int>(frame[3]);
  }
}

TEST_F(Http2GuardTest, AllowsThemAtTheirRate) {
  ASSERT_EQ(Send(Preface()), std::nullopt);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(Send(Frame(kPingFrame, 0, 8, 0)), std::nullopt) << i;
    now_ += absl::Milliseconds(100);
  }
}

TEST_F(Http2GuardTest, AllowsMoreOfThemToWhoReceives) {
  ASSERT_EQ(Send(Preface()), std::nullopt);
  for (int i = 0; i < 10'000; ++i) {  // a window update for each frame of a download
    Answer(Frame(kDataFrame, 0, 16 << 10));
    ASSERT_EQ(Send(Frame(kWindowFrame, 0, 4, 0) + Frame(kWindowFrame, 0, 4)), std::nullopt) << i;
  }
}

TEST_F(Http2GuardTest, AsksForEveryResetOfTheServer) {
  ASSERT_EQ(Answer(Frame(kSettingsFrame, 0, 0, 0)), std::nullopt);
  for (int i = 0; i < kMaxFaults; ++i) ASSERT_EQ(Answer(Frame(kResetFrame, 0, 4)), std::nullopt);
  EXPECT_EQ(Answer(Frame(kResetFrame, 0, 4)), Offence::kServerResets);
}

TEST_F(Http2GuardTest, AsksForCallsThatGetNothingButAnError) {
  const std::string answer = Frame(kHeadersFrame, kEndHeadersFlag, 20) + Frame(kDataFrame, 0, 9) +
                             Frame(kHeadersFrame, kEndHeadersFlag | kEndStreamFlag, 20);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(Answer(answer), std::nullopt);
  EXPECT_EQ(faults_[static_cast<size_t>(CallFault::kRefused)], 0);
  const std::string refusal = Frame(kHeadersFrame, kEndHeadersFlag | kEndStreamFlag, 20);
  for (int i = 0; i < kMaxFaults; ++i) ASSERT_EQ(Answer(refusal), std::nullopt);
  EXPECT_EQ(Answer(refusal), Offence::kRefusedCalls);
}

TEST_F(Http2GuardTest, TellsWhyItEndsBetweenTheServersFrames) {
  ASSERT_EQ(Send(Preface() + Frame(kHeadersFrame, kEndHeadersFlag, 9, 5)), std::nullopt);
  const std::string calm = "\0\0\0\x5\0\0\0\xbresets"s;
  const std::string header = "\0\0\xe\x7\0\0\0\0\0"s;
  EXPECT_EQ(guard_->Farewell(Offence::kResets), Frame(kSettingsFrame, 0, 0, 0) + header + calm)
      << "the server has not spoken yet";
  const std::string settings = Frame(kSettingsFrame, 0, 6, 0);
  for (size_t i = 0; i + 1 < settings.size(); ++i) {
    Answer(settings.substr(i, 1));
    ASSERT_EQ(guard_->Farewell(Offence::kResets), "") << i;
  }
  Answer(settings.substr(settings.size() - 1));
  EXPECT_EQ(guard_->Farewell(Offence::kResets), header + calm);
  EXPECT_EQ(guard_->Farewell(Offence::kFrame).substr(9),
            "\0\0\0\x5\0\0\0\x1"
            "frame"s);
}

}  // namespace
}  // namespace upscaled::server
