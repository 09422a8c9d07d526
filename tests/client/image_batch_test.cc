// Images of a plan, and the terminal meanwhile, against a server in this process.
#include "client/cli/image_batch.h"

#include <cstdio>
#include <regex>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_server.h"
#include "tests/client/temp_folder.h"

namespace upscaled::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTryingAgain[] = "trying again";

std::string ReadAll(std::FILE* file) {
  std::rewind(file);
  std::string text(1 << 16, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

// The drawn counts of tiles and words of a retry, without repetitions.
std::vector<std::string> StepsIn(const std::string& text) {
  static const std::regex kStep("tile (\\d+)/|trying again");
  std::vector<std::string> steps;
  for (std::sregex_iterator at(text.begin(), text.end(), kStep), end; at != end; ++at) {
    std::string step = (*at)[1].matched ? (*at)[1] : (*at)[0];
    if (steps.empty() || steps.back() != step) steps.push_back(std::move(step));
  }
  return steps;
}

TEST(ImageBatchTest, ATryThatFailsTakesItsProgressAlong) {
  FakeServer server;
  server.OnImage([](FakeImageCall& call) {
    if (call.number > 1) return FakeServer::Serve(call);
    call.ReceiveAll();
    call.SendHeader();
    call.SendProgress(3);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the connection is lost");
  });
  ClientOptions options{.retry = {.initial_backoff = absl::Milliseconds(1)}};
  options.channel.endpoints = {server.endpoint()};
  const auto client = UpscaleClient::Create(options);
  ASSERT_TRUE(client.ok()) << client.status();

  const TempFolder folder;
  WriteText(folder / "in.png", "an image");
  const ImagePlan plan{.jobs = {{folder / "in.png", folder / "out.png", v1::IMAGE_FORMAT_PNG}}};
  const BatchOptions batch_options;
  std::FILE* terminal = std::tmpfile();
  {
    ProgressBar bar(terminal, /*enabled=*/true, 1, /*draw_interval=*/absl::ZeroDuration());
    ImageReport report(ReportStyle::kVerbose, /*is_folder=*/false, bar);
    ImageBatch batch(plan, batch_options, **client, bar, report, {});
    EXPECT_EQ(batch.Run(), 0);
  }
  const std::string shown = ReadAll(terminal);
  std::fclose(terminal);

  EXPECT_EQ(ReadText(folder / "out.png"), FakeResult("an image"));
  EXPECT_THAT(StepsIn(shown), ElementsAre("0", "3", kTryingAgain, "0", "1", "2", "3", "4"))
      << shown;
  // The bar is as at the start before the wait, too.
  const std::string before = shown.substr(0, shown.find(kTryingAgain));
  EXPECT_THAT(before.substr(before.rfind("\r[")), HasSubstr("0 %  sent 0.0/")) << shown;
}

}  // namespace
}  // namespace upscaled::client
