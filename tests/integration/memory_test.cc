// The memory of the process: bounded for any height of a streaming image, and for any messages of
// clients.
#include <malloc.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>

#include "engine/base/status_macros.h"
#include "engine/image/codec.h"
#include "tests/integration/test_server.h"
#include "tests/support/server_process.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

constexpr int kWidthPx = 5000;
// 40 megapixels by the smaller model, and the 100 of a full run by the default one:
// UPSCALED_TEST_FULL=1.
constexpr int kHeightPx = 8000;
constexpr int kFullHeightPx = 20000;
// The whole process, with two threads. docs/operating.md states it.
constexpr int64_t kMaxResidentBytes = int64_t{160} << 20;
// Between an image and one of half its height: the memory kept by the allocator varies.
constexpr int64_t kToleranceBytes = int64_t{16} << 20;

// Sends its input as chunks of a call.
class UploadSink final : public ByteSink {
 public:
  explicit UploadSink(ClientStream& stream) : stream_(stream) {}

  absl::Status Write(std::span<const uint8_t> bytes) override {
    chunk_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return chunk_.size() < kChunkBytes ? absl::OkStatus() : Flush();
  }
  absl::Status Flush() {
    const bool open = stream_.Write(ChunkMessage(chunk_));
    chunk_.clear();
    return open ? absl::OkStatus() : absl::UnavailableError("the call is over");
  }

 private:
  static constexpr size_t kChunkBytes = size_t{64} << 10;
  ClientStream& stream_;
  std::string chunk_;
};

// Sends a PNG of shaded, grainy rows. Only one of them exists at a time.
absl::Status Upload(ClientStream& stream, Size size, std::mt19937& random) {
  UploadSink sink(stream);
  ImageSpec spec{size.width, size.height, 3, SampleType::kU8};
  const EncodeOptions options{.format = ImageFormat::kPng, .compression = 1};
  ASSIGN_OR_RETURN(const auto encoder, CreateImageEncoder(options, spec, ImageMetadata(), sink));
  spec.height_px = 1;
  Image row(spec);
  for (int y = 0; y < size.height; ++y) {
    uint8_t* sample = row.mutable_view().data;
    for (int x = 0; x < size.width; ++x) {
      const auto grain = static_cast<int>(random() % 4);
      for (const int shade : {x, y, x + y}) *sample++ = static_cast<uint8_t>(shade / 32 + grain);
    }
    RETURN_IF_ERROR(encoder->WriteRows(row.view()));
  }
  RETURN_IF_ERROR(encoder->Finish());
  return sink.Flush();
}

// Reads a JPEG to its end without keeping it, and returns its header's facts.
absl::StatusOr<ImageHeader> Download(ClientStream& stream) {
  std::optional<ImageHeader> header;
  std::vector<uint8_t> prefix;
  int64_t bytes = 0, announced_bytes = -1;
  for (pb::UpscaleImageResponse response; stream.Read(&response);) {
    if (response.has_summary()) announced_bytes = response.summary().result_bytes();
    bytes += static_cast<int64_t>(response.chunk().size());
    if (header.has_value()) continue;
    prefix.insert(prefix.end(), response.chunk().begin(), response.chunk().end());
    ASSIGN_OR_RETURN(header, ParseImageHeader(prefix, {.max_pixels = int64_t{1} << 40}));
  }
  const grpc::Status status = stream.Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(bytes, announced_bytes);
  if (!header.has_value()) return absl::DataLossError("the result ended before its header did");
  return *header;
}

// The most memory of a fresh server while it doubles one image.
int64_t PeakOf(Size size, const char* model, std::mt19937& random) {
  test::ServerProcess process(UPSCALED_BINARY,
                              {"--model-repository=engine/model/bundled", "--threads=2"});
  EXPECT_TRUE(process.AwaitReady()) << process.log();
  const auto stub = pb::UpscaleService::NewStub(
      grpc::CreateChannel(process.grpc_address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->UpscaleImage(&context);
  pb::UpscaleOptions options;
  options.set_model(model);
  options.set_scale(2);
  options.set_format(pb::IMAGE_FORMAT_JPEG);
  EXPECT_TRUE(stream->Write(StartMessage(options)));

  absl::StatusOr<ImageHeader> header;
  std::thread download([&] { header = Download(*stream); });
  const absl::Status sent = Upload(*stream, size, random);
  EXPECT_TRUE(sent.ok()) << sent;
  stream->WritesDone();
  download.join();
  EXPECT_TRUE(header.ok()) << header.status();
  if (header.ok()) {
    EXPECT_EQ(header->format, ImageFormat::kJpeg);
    EXPECT_EQ(header->spec.width_px, 2 * size.width);
    EXPECT_EQ(header->spec.height_px, 2 * size.height);
  }
  return process.PeakResidentBytes();
}

TEST(ServerMemoryTest, IsBoundedWhateverTheHeight) {
  if (mallinfo2().uordblks == 0) GTEST_SKIP() << "sanitizers take memory of their own";
  std::mt19937 random = test::FreshRandom();
  const bool full = std::getenv("UPSCALED_TEST_FULL") != nullptr;
  const int height = full ? kFullHeightPx : kHeightPx;
  const char* const model = full ? "" : "fast-2x";
  const int64_t half = PeakOf({kWidthPx, height / 2}, model, random);
  const int64_t whole = PeakOf({kWidthPx, height}, model, random);
  std::printf("peak of %dx%d: %.1f MiB, of half its height: %.1f MiB\n", kWidthPx, height,
              static_cast<double>(whole) / (1 << 20), static_cast<double>(half) / (1 << 20));
  EXPECT_LT(whole, kMaxResidentBytes);
  EXPECT_LT(whole, half + kToleranceBytes);
}

// Sends one message to a health check, however large.
void SendCheck(const std::string& address, const grpc::Slice& message) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  grpc::GenericStub stub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                          grpc::ByteBuffer(&message, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  EXPECT_FALSE(status.ok());
}

// gRPC takes a message in as a whole before it looks at its size.
TEST(ServerMemoryTest, IsBoundedWhateverTheMessages) {
  if (mallinfo2().uordblks == 0) GTEST_SKIP() << "sanitizers take memory of their own";
  constexpr int kClients = 8;
  constexpr size_t kMessageBytes = size_t{256} << 20;
  constexpr int64_t kMaxGrowthBytes = int64_t{300} << 20;
  test::ServerProcess process(UPSCALED_BINARY,
                              {"--model-repository=engine/model/bundled", "--threads=2"});
  ASSERT_TRUE(process.AwaitReady()) << process.log();
  const int64_t before = process.PeakResidentBytes();
  const grpc::Slice message(kMessageBytes);
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&] { SendCheck(process.grpc_address(), message); });
  }
  for (std::thread& client : clients) client.join();
  const int64_t growth = process.PeakResidentBytes() - before;
  std::printf("grown by %.1f MiB\n", static_cast<double>(growth) / (1 << 20));
  EXPECT_LT(growth, kMaxGrowthBytes);
}

}  // namespace
}  // namespace upscaled::server
