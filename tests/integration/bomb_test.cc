// Small files with a demand for far more memory: they get an error, at little cost.
#include <malloc.h>

#include <string>

#include <gmock/gmock.h>

#include "tests/integration/test_server.h"
#include "tests/support/bombs.h"
#include "tests/support/peak_memory.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;

constexpr size_t kBombBytes = size_t{64} << 20;
// Client and server together.
constexpr int64_t kMaxGrownBytes = int64_t{48} << 20;

class BombTest : public ::testing::Test {
 protected:
  // Both ways to upload agree; nothing stays reserved, and the process hardly grows.
  Outcome Send(const std::string& file) {
    const test::PeakMemory peak;
    Outcome outcome = UpscaleImage(server_.stub(), pb::UpscaleOptions(), file);
    server_.AwaitIdle();              // expects that no memory and no pixels are reserved
    if (mallinfo2().uordblks != 0) {  // sanitizers take memory of their own
      EXPECT_LT(peak.grown_bytes(), kMaxGrownBytes);
    }
    ExpectUnaryIsTheSame(file, outcome);
    return outcome;
  }

  // The limits are those of every server, and such a file harms no other call.
  void ExpectServes() {
    const Image image = test::PhotoImage({40, 30, 3, SampleType::kU8}, random_);
    const Outcome outcome =
        UpscaleImage(server_.stub(), pb::UpscaleOptions(), *test::Encode(image.view(), {}));
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  }

  std::mt19937 random_ = test::FreshRandom();
  TestServer server_;

 private:
  void ExpectUnaryIsTheSame(const std::string& file, const Outcome& streamed) {
    pb::UpscaleRequest request;
    request.set_image(file);
    if (file.size() > static_cast<size_t>(TestConfig().limits.max_unary_bytes)) return;
    pb::UpscaleResponse response;
    grpc::ClientContext context;
    const grpc::Status status = server_.stub().Upscale(&context, request, &response);
    EXPECT_EQ(status.error_code(), streamed.status.error_code());
    EXPECT_EQ(status.error_message(), streamed.status.error_message());
    EXPECT_TRUE(response.image() == streamed.image || !status.ok());
  }
};

TEST_F(BombTest, AHugeSizeIsRefusedByItsHeader) {
  const Outcome outcome = Send(test::HugeJpeg(random_));
  for (const char* part : {"65500 x 65500", "100000000 (max-source-pixels)"}) {
    EXPECT_TRUE(IsError(outcome.status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED", part));
  }
  EXPECT_FALSE(outcome.header.has_value());
  ExpectServes();
}

TEST_F(BombTest, ThousandsOfScansAreRefused) {
  const Outcome outcome = Send(test::ManyScansJpeg(5000, random_));
  EXPECT_TRUE(IsError(outcome.status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED",
                      "at least 101 scans; the limit is 100"));
  EXPECT_FALSE(outcome.summary.has_value());
  ExpectServes();
}

TEST_F(BombTest, MetadataWithoutEndAreRefused) {
  const Outcome outcome = Send(test::MetadataJpeg(1000));
  EXPECT_TRUE(
      IsError(outcome.status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED", "limit is 4194304"));
  EXPECT_FALSE(outcome.header.has_value());
  ExpectServes();
}

TEST_F(BombTest, CompressedMetadataThatInflateBeyondTheLimitAreRefused) {
  const test::PngFile file = test::RandomPng(8, 8, 8, 2, random_);
  for (const std::string_view chunk : {"iCCP", "zTXt", "iTXt"}) {
    const Outcome outcome = Send(test::MetadataBombPng(file, chunk, kBombBytes));
    for (const std::string_view part : {chunk, std::string_view("limit is 4194304")})
      EXPECT_TRUE(IsError(outcome.status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED",
                          std::string(part)));
    EXPECT_FALSE(outcome.header.has_value());
  }
  ExpectServes();
}

TEST_F(BombTest, PixelsThatGoOnAfterTheLastRowAreRefused) {
  const Outcome outcome = Send(test::PixelBombPng(kBombBytes));
  EXPECT_TRUE(IsError(outcome.status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED",
                      "at least 4097 bytes after the last row; the limit is 4096"));
  EXPECT_FALSE(outcome.summary.has_value());
  ExpectServes();
}

TEST_F(BombTest, ThousandsOfHuffmanCodesAreRefused) {
  const Outcome outcome = Send(test::HuffmanBombWebp({1024, 1024}));
  EXPECT_TRUE(IsError(outcome.status, StatusCode::INVALID_ARGUMENT, "LIMIT_EXCEEDED",
                      "65536 blocks; the limit is 2600"));
  EXPECT_FALSE(outcome.summary.has_value());
  ExpectServes();
}

}  // namespace
}  // namespace upscaled::server
