#include "client/worker/url_file.h"

#include <fcntl.h>

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client/worker/spool_file.h"
#include "engine/base/unique_fd.h"
#include "tests/client/fake_http_server.h"
#include "tests/client/temp_folder.h"

namespace upscaled::client {
namespace {

using ::testing::HasSubstr;

absl::Status PostTo(const std::string& answer) {
  const FakeHttpServer server([&](const FakeHttpRequest&) { return answer; });
  int code = 0;
  return Post(server.url(), {}, "body", /*allowed=*/nullptr, {}, code);
}

TEST(PostTest, AnEndlessAnswerIsCut) {
  const std::string body(100'000, 'x');  // and no end
  EXPECT_EQ(PostTo(absl::StrCat("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n", body)),
            absl::OkStatus())
      << "it was taken";
  const absl::Status refused =
      PostTo(absl::StrCat("HTTP/1.1 404 Not Found\r\nContent-Length: 1000000000000\r\n\r\n", body));
  EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound) << refused;
}

TEST(PostTest, AnEndlessHeaderIsNoAnswer) {
  for (const char* const begin : {"HTTP/1.1 200 OK\r\n", "HTTP/1.1 404 Not Found\r\n"}) {
    std::string answer = begin;
    for (int i = 0; i < 100; ++i)
      absl::StrAppend(&answer, "X-", i, ": ", std::string(1000, 'x'), "\r\n");
    EXPECT_FALSE(PostTo(answer + "Content-Length: 0\r\n\r\n").ok());
  }
  std::string waits;
  for (int i = 0; i < 3000; ++i) waits += "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n";
  EXPECT_EQ(PostTo(waits + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(PostTo("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            absl::OkStatus());
}

// An answer stands for no more than its server has got.
TEST(UploadTest, AnAnswerBeforeTheEndOfTheFileStoresNothing) {
  absl::StatusOr<SpoolFile> spool = SpoolFile::Create();
  ASSERT_TRUE(spool.ok()) << spool.status();
  ASSERT_EQ(spool->Write(std::string(size_t{8} << 20, 'x')), absl::OkStatus());
  const absl::StatusOr<UniqueFd> file = spool->Finish();
  ASSERT_TRUE(file.ok()) << file.status();
  for (const std::string& answer :
       {std::string("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n" + std::string(100'000, 'x')}) {
    const FakeHttpServer hasty([&](const FakeHttpRequest&) { return answer; },
                               /*reads_bodies=*/false);
    const absl::Status status =
        Upload(hasty.url(), file->get(), "image/png", {}, /*allowed=*/nullptr, {});
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("of 8388608 bytes"));

    const FakeHttpServer patient([&](const FakeHttpRequest&) { return answer; });
    EXPECT_EQ(Upload(patient.url(), file->get(), "image/png", {}, /*allowed=*/nullptr, {}),
              absl::OkStatus());
  }
}

// Bytes just above a stall's rate held a worker for weeks.
TEST(TransferTest, HasAnEnd) {
  absl::Notification over;
  const FakeHttpServer server([&](const FakeHttpRequest& request) {
    if (request.target == "/moved") return FakeAnswer("302 Found", "Location: /file\r\n", "");
    over.WaitForNotification();
    return FakeAnswer("200 OK", "", "an image");
  });
  const TempFolder folder;
  WriteText(folder / "result", "a result");
  const UniqueFd file(open((folder / "result").c_str(), O_RDONLY | O_CLOEXEC));
  constexpr absl::Duration kTime = absl::Milliseconds(200);
  for (const char* target : {"/file", "/moved"}) {
    const absl::Status got =
        Download(server.url() + target, 1000, {}, /*allowed=*/nullptr, {}, kTime).status();
    EXPECT_TRUE(absl::IsUnavailable(got)) << got;
    EXPECT_THAT(std::string(got.message()), testing::HasSubstr("timed out after")) << target;
  }
  const absl::Status put =
      Upload(server.url() + "/file", file.get(), "image/png", {}, /*allowed=*/nullptr, {}, kTime);
  EXPECT_TRUE(absl::IsUnavailable(put)) << put;
  EXPECT_THAT(std::string(put.message()), testing::HasSubstr("timed out after"));
  over.Notify();
}

}  // namespace
}  // namespace upscaled::client
