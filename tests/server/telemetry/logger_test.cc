#include "server/telemetry/logger.h"

#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "spdlog/sinks/ostream_sink.h"

namespace upscaled::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class LoggerTest : public ::testing::Test {
 protected:
  Logger MakeLogger(LogFormat format, LogLevel least = LogLevel::kDebug) {
    return Logger(format, least, std::make_shared<spdlog::sinks::ostream_sink_mt>(out_));
  }
  // The one written line, without its end.
  std::string Line() {
    const std::string text = out_.str();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    EXPECT_THAT(text, EndsWith("\n"));
    out_.str("");
    return text.substr(0, text.find('\n'));
  }

  std::ostringstream out_;
};

TEST_F(LoggerTest, TextIsTimeLevelMessageAndFields) {
  Logger logger = MakeLogger(LogFormat::kText);
  const LogField fields[] = {{"port", 8001}, {"ratio", 0.5}, {"host", "a b"}, {"empty", ""}};
  logger.Log(LogLevel::kWarning, "it's \"up\"", fields);
  EXPECT_THAT(Line(), MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z warning "
                                   "it's \"up\" port=8001 ratio=0.5 host=\"a b\" empty=\"\""));
}

TEST_F(LoggerTest, JsonIsOneObjectALine) {
  Logger logger = MakeLogger(LogFormat::kJson);
  const LogField fields[] = {{"port", 8001}, {"ratio", 0.5}, {"host", "a\"b\\"}};
  logger.Log(LogLevel::kError, "down", fields);
  const auto line = nlohmann::json::parse(Line());
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["message"], "down");
  EXPECT_EQ(line["port"], 8001);
  EXPECT_EQ(line["ratio"], 0.5);
  EXPECT_EQ(line["host"], "a\"b\\");
  EXPECT_TRUE(line.contains("time"));
}

TEST_F(LoggerTest, LowerLevelsAreLeftOut) {
  Logger logger = MakeLogger(LogFormat::kText, LogLevel::kWarning);
  logger.Debug("no");
  logger.Info("no");
  EXPECT_EQ(out_.str(), "");
  logger.Warning("yes");
  EXPECT_THAT(Line(), EndsWith("warning yes"));
  logger.Error("yes");
  EXPECT_THAT(Line(), EndsWith("error yes"));
}

TEST_F(LoggerTest, HostileStringsStayOnTheirLine) {
  const std::string hostile("a\nb\r\t\x1b[31m\x7f\0c\xff\xc3\xa9 \xe2\x80\xa8", 19);
  const LogField fields[] = {{"value", hostile}};
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    Logger logger = MakeLogger(format);
    logger.Log(LogLevel::kInfo, hostile, fields);
    const std::string line = Line();
    for (const char c : line) EXPECT_TRUE(c >= ' ' && c <= '~') << int{c};
    EXPECT_THAT(line, HasSubstr("a\\nb\\r\\t\\u001b[31m\\u007f\\u0000c\\ufffd\\u00e9"));
  }
}

TEST_F(LoggerTest, AValueCannotForgeAField) {
  Logger logger = MakeLogger(LogFormat::kText);
  const LogField fields[] = {{"id", "x code=OK"}, {"other", "code=OK"}};
  logger.Log(LogLevel::kInfo, "request", fields);
  EXPECT_THAT(Line(), EndsWith("id=\"x code=OK\" other=\"code=OK\""));
}

TEST_F(LoggerTest, LongStringsAreCut) {
  Logger logger = MakeLogger(LogFormat::kJson);
  const std::string exact(512, 'x'), longer(513, 'y');
  const LogField fields[] = {{"exact", exact}, {"longer", longer}};
  logger.Log(LogLevel::kInfo, longer, fields);
  const auto line = nlohmann::json::parse(Line());
  EXPECT_EQ(line["exact"], exact);
  EXPECT_EQ(line["longer"], longer.substr(1) + "...");
  EXPECT_EQ(line["message"], longer.substr(1) + "...");
}

RequestRecord FullRecord() {
  RequestRecord record;
  record.method = "UpscaleImage";
  record.request_id = "0b7d";
  record.peer = "ipv4:127.0.0.1:5555";
  record.model = "general-2x";
  record.device = "cpu";
  record.source = {30, 20};
  record.result = {60, 40};
  record.source_pixels = 600;
  record.result_pixels = 2400;
  record.tiles = 3;
  record.spared_pixels = 77;
  record.unchanged_pixels = 78;
  record.received_bytes = 1234;
  record.sent_bytes = 5678;
  record.total = absl::Microseconds(12345);
  record.queue = absl::Milliseconds(1);
  record.decode = absl::Milliseconds(2);
  record.infer = absl::Milliseconds(3);
  record.encode = absl::Milliseconds(4);
  record.forecast = absl::Milliseconds(5);
  return record;
}

TEST_F(LoggerTest, ARequestIsOneLine) {
  MakeLogger(LogFormat::kJson).LogRequest(FullRecord());
  const auto line = nlohmann::json::parse(Line());
  EXPECT_EQ(line["level"], "info");
  EXPECT_EQ(line["message"], "request");
  EXPECT_EQ(line["method"], "UpscaleImage");
  EXPECT_EQ(line["request_id"], "0b7d");
  EXPECT_EQ(line["peer"], "ipv4:127.0.0.1:5555");
  EXPECT_EQ(line["code"], "OK");
  EXPECT_FALSE(line.contains("reason"));
  EXPECT_EQ(line["model"], "general-2x");
  EXPECT_EQ(line["source"], "30x20");
  EXPECT_EQ(line["result"], "60x40");
  EXPECT_EQ(line["source_pixels"], 600);
  EXPECT_EQ(line["tiles"], 3);
  EXPECT_EQ(line["spared_pixels"], 77);
  EXPECT_EQ(line["unchanged_pixels"], 78);
  EXPECT_EQ(line["received_bytes"], 1234);
  EXPECT_EQ(line["sent_bytes"], 5678);
  EXPECT_EQ(line["total_ms"], 12.345);
  EXPECT_EQ(line["queue_ms"], 1);
  EXPECT_EQ(line["encode_ms"], 4);
  EXPECT_EQ(line["forecast_ms"], 5);
}

TEST_F(LoggerTest, AFailedRequestSaysWhy) {
  RequestRecord record;
  record.method = "Upscale";
  record.code = absl::StatusCode::kInvalidArgument;
  record.reason = "INVALID_IMAGE";
  record.message = "PNG: no IHDR";
  MakeLogger(LogFormat::kText).LogRequest(record);
  EXPECT_THAT(Line(), EndsWith(" info request method=Upscale request_id=\"\" peer=\"\" "
                               "code=INVALID_ARGUMENT reason=INVALID_IMAGE error=\"PNG: no IHDR\" "
                               "total_ms=0.0"));
  record.code = absl::StatusCode::kInternal;
  MakeLogger(LogFormat::kText).LogRequest(record);
  EXPECT_THAT(Line(), HasSubstr(" warning request "));
}

}  // namespace
}  // namespace upscaled::server
