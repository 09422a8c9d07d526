#include "server/telemetry/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/temp_folder.h"
#include "tests/support/await.h"
#include "tests/support/fake_clock.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixMillis(1'790'000'000'123);

std::vector<nlohmann::json> Lines(const std::filesystem::path& file) {
  std::istringstream text(client::ReadText(file));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

RequestRecord RecordOf(const std::string& request_id) {
  RequestRecord record;
  record.method = "Upscale";
  record.request_id = request_id;
  return record;
}

class AuditLogTest : public ::testing::Test {
 protected:
  std::unique_ptr<AuditLog> Open(const std::filesystem::path& path) {
    auto log = AuditLog::Open(timer_, path, [this](int64_t lines, std::string_view reason) {
      told_ += lines;
      reason_ = reason;
    });
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }

  Timer timer_;
  client::TempFolder folder_;
  const std::filesystem::path file_ = folder_ / "audit.log";
  int64_t told_ = 0;  // by the log's thread; to be read when the log is gone
  std::string reason_;
};

TEST(AuditLineTest, SaysWhoWhatAndHowItEnded) {
  RequestRecord record = RecordOf("0b7d");
  record.key = "shop-backend";
  record.tenant = "shop";
  record.peer = "ipv4:192.0.2.7:5555";
  record.transport = "grpc";
  record.model = "general-2x";
  record.source = {30, 20};
  record.result = {60, 40};
  record.received_bytes = 1234;
  record.sent_bytes = 5678;
  record.cost = 99;
  record.code = absl::StatusCode::kResourceExhausted;
  record.reason = "OVERLOADED";
  record.limit = "max-queue-pixels";
  record.forecast = absl::Microseconds(6789);
  record.total = absl::Microseconds(12345);
  EXPECT_EQ(
      AuditLine(record, kNow),
      R"({"time":"2026-09-21T14:13:20.123Z","key":"shop-backend","tenant":"shop",)"
      R"("address":"ipv4:192.0.2.7:5555","transport":"grpc","method":"Upscale",)"
      R"("request_id":"0b7d","model":"general-2x","source":"30x20","result":"60x40",)"
      R"("received_bytes":1234,"sent_bytes":5678,"cost":99,"code":"RESOURCE_EXHAUSTED",)"
      R"("reason":"OVERLOADED","limit":"max-queue-pixels","forecast_ms":6.789,"total_ms":12.345})"
      "\n");
}

TEST(AuditLineTest, TextsOfClientsCannotBreakOrFillIt) {
  const std::string line = AuditLine(RecordOf("a\nb\"}\x1b\xff" + std::string(100'000, 'x')), kNow);
  EXPECT_LT(line.size(), 1000u);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_THAT(nlohmann::json::parse(line)["request_id"].get<std::string>(),
              HasSubstr("a\nb\"}\x1b\xef\xbf\xbdxx"));
}

TEST_F(AuditLogTest, AppendsToAFileThatOthersCannotRead) {
  Open(file_)->Add(RecordOf("first"), kNow);
  Open(file_)->Add(RecordOf("second"), kNow);
  const auto lines = Lines(file_);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["request_id"], "first");
  EXPECT_EQ(lines[1]["request_id"], "second");
  struct stat state = {};
  ASSERT_EQ(stat(file_.c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & ~S_IFMT & ~mode_t{0640}, 0u);
}

TEST_F(AuditLogTest, RotatesUnderLoadWithoutLosingALine) {
  constexpr int kThreads = 4, kLines = 2000, kRotations = 50;
  auto log = Open(file_);
  std::vector<std::thread> callers;
  for (int i = 0; i < kThreads; ++i) {
    callers.emplace_back([&] {
      for (int line = 0; line < kLines; ++line) log->Add(RecordOf("x"), kNow);
    });
  }
  for (int i = 0; i < kRotations; ++i) {
    std::filesystem::rename(file_, folder_ / ("audit.log." + std::to_string(i)));
    ASSERT_TRUE(log->Reopen().ok());
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(log->lost(), 0);
  log.reset();
  size_t lines = Lines(file_).size();
  for (int i = 0; i < kRotations; ++i) {
    lines += Lines(folder_ / ("audit.log." + std::to_string(i))).size();
  }
  EXPECT_EQ(lines, size_t{kThreads} * kLines);
}

TEST_F(AuditLogTest, GoesOnWithTheOldFileWhereThereCanBeNoNewOne) {
  auto log = Open(file_);
  const std::filesystem::path renamed = folder_ / "renamed";
  std::filesystem::rename(file_, renamed);
  std::filesystem::create_directory(file_);
  EXPECT_THAT(std::string(log->Reopen().message()), HasSubstr(file_.string()));
  log->Add(RecordOf("kept"), kNow);
  log.reset();
  EXPECT_EQ(Lines(renamed).size(), 1u);
}

TEST_F(AuditLogTest, AFullDiskCostsLinesAndIsTold) {
  auto log = Open("/dev/full");
  for (int i = 0; i < 5; ++i) log->Add(RecordOf("x"), kNow);
  test::Await([&] { return log->lost() >= 5; });
  log.reset();
  EXPECT_EQ(told_, 5);
  EXPECT_EQ(reason_, "No space left on device");
}

// A pipe without a reader takes a part of a line, then no more; later it takes whole lines again.
TEST_F(AuditLogTest, ATornLineIsAloneOnItsOwn) {
  const std::filesystem::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const UniqueFd reader(open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
  auto log = Open(pipe);
  int64_t added = 0;
  while (log->lost() == 0) {
    log->Add(RecordOf(std::string(333, 'x')), kNow);
    ++added;
  }
  std::string text;
  const auto drain = [&] {
    char bytes[4096];
    for (ssize_t n; (n = read(reader.get(), bytes, sizeof(bytes))) > 0;) text.append(bytes, n);
  };
  drain();
  log->Add(RecordOf("last"), kNow);
  const int64_t all = added + 1;
  log.reset();
  drain();
  int64_t whole = 0;
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line); last = line) {
    whole += nlohmann::json::accept(line);
  }
  EXPECT_EQ(nlohmann::json::parse(last)["request_id"], "last");
  EXPECT_EQ(whole + told_, all);
}

// Callers without a key may be refused a thousand times a second for nothing.
TEST_F(AuditLogTest, FreeRefusalsAreCountedBeyondTheirRate) {
  RequestRecord refused = RecordOf("x");
  refused.code = absl::StatusCode::kUnauthenticated;
  refused.reason = "UNAUTHENTICATED";
  RequestRecord busy = refused, known = refused, costly = refused;
  busy.code = absl::StatusCode::kResourceExhausted;
  busy.reason = "OVERLOADED";
  known.key = "shop-backend";
  costly.cost = 1;
  constexpr int kCalls = 3000;
  FakeClock clock;
  auto log = *AuditLog::Open(timer_, file_, nullptr, clock);
  for (int i = 0; i < kCalls; ++i) {
    for (const RequestRecord& record : {refused, busy, known, costly}) log->Add(record, kNow);
  }
  clock.Advance(absl::Seconds(2));
  for (int i = 0; i < kCalls; ++i) log->Add(refused, kNow);
  EXPECT_EQ(log->lost(), 0);
  log.reset();
  std::map<std::string, int64_t> calls, omitted;
  for (const nlohmann::json& line : Lines(file_)) {
    const std::string reason = line["reason"];
    if (line.contains("omitted_refusals")) {
      omitted[reason] += line["omitted_refusals"].get<int64_t>();
    } else {
      ++calls[reason];
    }
  }
  EXPECT_EQ(calls["UNAUTHENTICATED"], 2 * kCalls + 1000 + 20);
  EXPECT_EQ(omitted["UNAUTHENTICATED"], 2 * kCalls - 1000 - 20);
  EXPECT_EQ(calls["OVERLOADED"], 1000);
  EXPECT_EQ(omitted["OVERLOADED"], kCalls - 1000);
}

TEST_F(AuditLogTest, AFileThatCannotBeOpenedIsSaidSo) {
  const auto log = AuditLog::Open(timer_, folder_ / "none" / "audit.log", nullptr);
  EXPECT_EQ(log.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(log.status().message()), HasSubstr("none/audit.log: No such file"));
}

}  // namespace
}  // namespace upscaled::server
