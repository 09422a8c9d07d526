// The logger with a thread of its own for a descriptor.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/telemetry/fd_sink.h"
#include "server/telemetry/logger.h"

namespace upscaled::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Two ends; closed with the object.
class Ends {
 public:
  static Ends Pipe() {
    Ends ends;
    EXPECT_EQ(pipe2(ends.fds_, O_CLOEXEC), 0);
    return ends;
  }
  static Ends Socket() {
    Ends ends;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.fds_), 0);
    return ends;
  }
  Ends(Ends&& other) noexcept { std::swap(fds_, other.fds_); }
  ~Ends() {
    for (const int fd : fds_) {
      if (fd >= 0) close(fd);
    }
  }
  int reader() const { return fds_[0]; }
  int writer() const { return fds_[1]; }
  // Until the writer is closed. This closes it.
  std::string ReadAll() {
    close(std::exchange(fds_[1], -1));
    std::string text;
    char buffer[4096];
    for (ssize_t count; (count = read(fds_[0], buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<size_t>(count));
    }
    return text;
  }

 private:
  Ends() = default;
  int fds_[2] = {-1, -1};
};

int64_t Lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

RequestRecord Failed() {
  RequestRecord record;
  record.method = "Upscale";
  record.code = absl::StatusCode::kResourceExhausted;
  record.reason = "OVERLOADED";
  return record;
}

TEST(QueuedLoggerTest, WritesAllLinesInOrder) {
  for (Ends& ends : std::array<Ends, 2>{Ends::Pipe(), Ends::Socket()}) {
    {
      Logger logger(LogFormat::kText, LogLevel::kInfo, ends.writer());
      logger.Debug("no");
      for (int i = 0; i < 50; ++i) logger.Info(absl::StrCat("line ", i));
      EXPECT_TRUE(logger.Flush(absl::InfiniteDuration()));
      logger.Error("the last");
    }
    const std::string text = ends.ReadAll();
    EXPECT_EQ(Lines(text), 51);
    EXPECT_LT(text.find("line 7\n"), text.find("line 8\n"));
    EXPECT_THAT(text, EndsWith("error the last\n"));
  }
}

TEST(QueuedLoggerTest, LongLinesArriveWhole) {
  Ends ends = Ends::Pipe();
  const std::string value(512, 'x');
  std::vector<LogField> fields(30, LogField{"field", value});
  std::string text;
  {
    Logger logger(LogFormat::kText, LogLevel::kInfo, ends.writer());
    logger.Log(LogLevel::kInfo, "long", fields);
    EXPECT_TRUE(logger.Flush(absl::InfiniteDuration()));
  }
  EXPECT_GT(ends.ReadAll().size(), 30u * 512u);
}

TEST(QueuedLoggerTest, AReaderThatDoesNotReadStopsNobody) {
  for (Ends& ends : std::array<Ends, 2>{Ends::Pipe(), Ends::Socket()}) {
    const absl::Time start = absl::Now();
    {
      Logger logger(LogFormat::kText, LogLevel::kInfo, ends.writer());
      const std::string value(512, 'x');
      const LogField fields[] = {{"value", value}};
      for (int i = 0; i < 10'000; ++i) {
        logger.Log(LogLevel::kInfo, absl::StrCat("line ", i % 200), fields);
      }
      EXPECT_FALSE(logger.Flush(absl::Milliseconds(10)));
      EXPECT_GT(logger.drops().lost, 0);
    }
    EXPECT_LT(absl::Now() - start, absl::Seconds(30));
    EXPECT_THAT(ends.ReadAll(), HasSubstr("info line "));
  }
}

TEST(QueuedLoggerTest, FailedRequestsAreFewAndCounted) {
  constexpr int kRequests = 10'000;
  Ends ends = Ends::Pipe();
  std::string text;
  {
    Logger logger(LogFormat::kText, LogLevel::kInfo, ends.writer());
    for (int i = 0; i < kRequests; ++i) logger.LogRequest(Failed());
    logger.Info("another kind");
    EXPECT_GT(logger.drops().limited, kRequests / 2);
    EXPECT_EQ(logger.drops().lost, 0);
  }
  text = ends.ReadAll();
  EXPECT_LT(Lines(text), 500);
  EXPECT_THAT(text, HasSubstr("another kind"));
  EXPECT_THAT(text, HasSubstr("left out lines of a kind that comes too often "
                              "kind=\"request code=RESOURCE_EXHAUSTED reason=OVERLOADED\" lines="));
}

TEST(WriteWithinTest, EndsInTime) {
  Ends ends = Ends::Pipe();
  EXPECT_TRUE(WriteWithin(ends.writer(), "hello\n", absl::Seconds(1)));
  EXPECT_FALSE(WriteWithin(ends.writer(), std::string(1 << 20, 'x'), absl::Milliseconds(100)));
  EXPECT_THAT(ends.ReadAll(), StartsWith("hello\n"));
}

}  // namespace
}  // namespace upscaled::server
