#include "server/rpc/message_check.h"

#include <string>

#include <gmock/gmock.h>

#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/base/error.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {
namespace {

namespace pb = ::upscale::v1;
using ::testing::HasSubstr;

// In slices of a few bytes, as the transport may have them.
absl::Status Check(const std::string& bytes) {
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()), 7);
  return CheckFields(stream, *pb::UpscaleImageRequest::descriptor());
}

std::string Repeated(const std::string& bytes, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += bytes;
  return all;
}

pb::UpscaleImageRequest FullStart() {
  pb::UpscaleImageRequest request;
  pb::UpscaleImageStart& start = *request.mutable_start();
  start.set_request_id("id");
  start.set_total_bytes(1 << 30);
  start.set_report_progress(true);
  pb::UpscaleOptions& options = *start.mutable_options();
  options.set_model("general-2x");
  options.set_noise_level(-1);
  options.mutable_size()->set_width_px(1000);
  options.mutable_size()->set_height_px(1000);
  options.set_tta(true);
  options.set_format(pb::IMAGE_FORMAT_JPEG);
  options.set_quality(90);
  options.set_png_compression(1);
  options.set_keep_16_bit(true);
  options.set_precision(pb::PRECISION_FAST);
  options.set_tile_px(64);
  options.mutable_prefilter()->set_sigma_space(1);
  options.mutable_prefilter()->set_sigma_range(1);
  return request;
}

TEST(MessageCheckTest, TakesWhatClientsSend) {
  EXPECT_TRUE(Check("").ok());
  EXPECT_TRUE(Check(FullStart().SerializeAsString()).ok());
  pb::UpscaleImageRequest chunk;
  chunk.set_chunk(std::string(100'000, '\x07'));  // looks like a malformed tag
  EXPECT_TRUE(Check(chunk.SerializeAsString()).ok());
}

TEST(MessageCheckTest, CountsUnknownFields) {
  const std::string field = "\x7a\x02hi";
  EXPECT_TRUE(Check(Repeated(field, kMaxMessageFields)).ok());
  const absl::Status status = Check(Repeated(field, kMaxMessageFields + 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kLimitExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("more than 128 fields"));
}

TEST(MessageCheckTest, CountsFieldsOfPartsAndGroups) {
  const std::string unknown = Repeated("\x78\x01", kMaxMessageFields);
  // start { options { ... } }
  const std::string options = "\x0a\x80\x02" + unknown;
  EXPECT_EQ(ReasonOf(Check("\x0a\x83\x02" + options)), ErrorReason::kLimitExceeded);
  // A group is its fields and its end.
  EXPECT_EQ(ReasonOf(Check("\x7b" + unknown + "\x7c")), ErrorReason::kLimitExceeded);
  EXPECT_EQ(ReasonOf(Check(Repeated("\x7b", 1000))), ErrorReason::kLimitExceeded);
}

TEST(MessageCheckTest, RefusesWhatIsMalformed) {
  for (const std::string& bytes :
       {std::string("\x07"),
        std::string("\x0a\x05"
                    "ab"),
        std::string("\x0a"), std::string("\x79\x01"), std::string("\x0a\x02\x0a\x05"),
        std::string("\x00", 1), std::string("\x78\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")}) {
    const absl::Status status = Check(bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bytes.size();
    EXPECT_EQ(ReasonOf(status), ErrorReason::kInvalidOption) << bytes.size();
    EXPECT_THAT(std::string(status.message()), HasSubstr("upscale.v1.UpscaleImageRequest"));
  }
}

}  // namespace
}  // namespace upscaled::server
