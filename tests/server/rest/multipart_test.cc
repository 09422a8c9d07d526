#include "server/rest/multipart.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Part {
  MultipartPart header;
  std::string body;
};

// All parts, the body coming and being read a few bytes at a time.
absl::StatusOr<std::vector<Part>> ReadParts(const std::string& body, size_t piece_bytes,
                                            bool skip = false) {
  test::SlowSource source(body, piece_bytes);
  MultipartReader reader(source, "XX");
  std::vector<Part> parts;
  while (true) {
    auto header = reader.Next();
    if (!header.ok()) return header.status();
    if (!header->has_value()) return parts;
    parts.push_back({**std::move(header), ""});
    std::vector<uint8_t> bytes(piece_bytes);
    while (!skip) {
      const auto count = reader.Read(bytes);
      if (!count.ok()) return count.status();
      if (*count == 0) break;
      parts.back().body.append(reinterpret_cast<const char*>(bytes.data()), *count);
    }
  }
}

std::string Message(const std::string& body) {
  const absl::Status status = ReadParts(body, 1000).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kInvalidOption) << status;
  return std::string(status.message());
}

constexpr char kFormBody[] =
    "preamble\r\n--XX\r\n"
    "Content-Disposition: form-data; name=\"image\"; filename=\"C:\\\\a \\\"b\\\".png\"\r\n"
    "content-type: image/png\r\n\r\n"
    "\r\n--X\r\n--XY-\r\n\r\r\n--XX \t\r\n"
    "Content-Disposition: form-data; name=scale\r\n\r\n\r\n--XX\r\n"
    "Content-Disposition: FORM-DATA; filename*=UTF-8''x; "
    "name=\"m;n\"\r\n\r\n2\r\n--XX--\r\nepilogue";

TEST(MultipartReaderTest, GivesPartsHoweverTheyCome) {
  for (const size_t piece : {1u, 2u, 3u, 7u, 64u, 100'000u}) {
    const auto parts = ReadParts(kFormBody, piece);
    ASSERT_TRUE(parts.ok()) << parts.status() << " " << piece;
    ASSERT_EQ(parts->size(), 3u);
    EXPECT_EQ((*parts)[0].header.name, "image");
    EXPECT_EQ((*parts)[0].header.file_name, "C:\\a \"b\".png");
    EXPECT_EQ((*parts)[0].header.content_type, "image/png");
    EXPECT_EQ((*parts)[0].body, "\r\n--X\r\n--XY-\r\n\r");
    EXPECT_EQ((*parts)[1].header.name, "scale");
    EXPECT_FALSE((*parts)[1].header.file_name.has_value());
    EXPECT_EQ((*parts)[1].body, "");
    EXPECT_EQ((*parts)[2].header.name, "m;n");
    EXPECT_EQ((*parts)[2].body, "2");
    EXPECT_EQ(ReadParts(kFormBody, piece, /*skip=*/true)->size(), 3u);
  }
}

TEST(MultipartReaderTest, TakesPartsThatAreLargerThanItsBuffer) {
  std::string large(3 * MultipartReader::kBufferBytes + 17, '\r');
  for (size_t i = 0; i < large.size(); i += 5) large[i] = '\n';
  const auto parts = ReadParts(
      "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n" + large + "\r\n--XX--", 100'000);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_TRUE(parts->front().body == large);
}

TEST(MultipartReaderTest, RefusesWhatBreaksTheRules) {
  EXPECT_THAT(Message(""), HasSubstr("ends before its last boundary"));
  EXPECT_THAT(Message("--XX\r\nContent-Disposition: form-data; name=a\r\n\r\nbytes"),
              HasSubstr("ends before"));
  EXPECT_THAT(Message("--XX"), HasSubstr("ends before"));
  EXPECT_THAT(Message("--XXY\r\n\r\n\r\n--XX--"), HasSubstr("followed by other text"));
  EXPECT_THAT(Message("--XX\r\nno colon\r\n\r\n\r\n--XX--"), HasSubstr("without a colon"));
  EXPECT_THAT(Message("--XX\r\nContent-Type: a/b\r\n\r\n\r\n--XX--"),
              HasSubstr("no Content-Disposition"));
  EXPECT_THAT(Message("--XX\r\nContent-Disposition: form-data\r\n\r\n\r\n--XX--"),
              HasSubstr("with a name"));
  EXPECT_THAT(Message("--XX\r\nA: " + std::string(100'000, 'a') + "\r\n\r\n\r\n--XX--"),
              HasSubstr("more than 8192 bytes"));
}

TEST(MultipartBoundaryTest, IsReadFromTheContentType) {
  EXPECT_TRUE(IsMultipart("Multipart/Form-Data; boundary=x"));
  EXPECT_FALSE(IsMultipart("multipart/mixed; boundary=x"));
  EXPECT_EQ(*MultipartBoundary("multipart/form-data; charset=utf-8; Boundary=\"a b'c\""), "a b'c");
  EXPECT_EQ(*MultipartBoundary("multipart/form-data;boundary=----WebKitFormBoundary7MA4"),
            "----WebKitFormBoundary7MA4");
  for (const std::string type :
       {"multipart/form-data", "multipart/form-data; boundary=",
        "multipart/form-data; boundary=a\"b", "multipart/form-data; boundary=\"a \""}) {
    EXPECT_EQ(ReasonOf(MultipartBoundary(type).status()), ErrorReason::kInvalidOption) << type;
  }
  EXPECT_TRUE(MultipartBoundary("multipart/form-data; boundary=" + std::string(70, 'a')).ok());
  EXPECT_FALSE(MultipartBoundary("multipart/form-data; boundary=" + std::string(71, 'a')).ok());
}

}  // namespace
}  // namespace upscaled::server
