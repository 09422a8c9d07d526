// The real command against a fake server: exit codes, streams, files.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "client/cli/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/fake_http_server.h"
#include "tests/client/fake_server.h"
#include "tests/client/process.h"
#include "tests/client/temp_folder.h"
#include "upscale/v1/admin.grpc.pb.h"

namespace upscaled::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

ProcessResult Upscale(std::vector<std::string> arguments, const std::string& input = "",
                      const std::string& server = "") {
  arguments.insert(arguments.begin(), UPSCALE_BINARY);
  return Process(arguments, input, server).Wait();
}

class CliTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }

  ProcessResult Image(const std::string& in, const std::string& out,
                      std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"image",           "-i", in, "-o", out, "--server",
                                          server_.endpoint()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Upscale(arguments);
  }

  TempFolder folder_;
  FakeServer server_;
};

// --- upscale and upscale-full ---

std::string Help(std::vector<std::string> command) {
  command.push_back("--help");
  const ProcessResult help = Process(command).Wait();
  EXPECT_EQ(help.exit_code, kExitOk) << help.err;
  return help.out;
}

// The libraries loaded by a program at its start, as the dynamic linker lists them.
std::string LibrariesOf(const std::string& program) {
  return Process({"/usr/bin/ldd", program}).Wait().out;
}

TEST(ProgramsTest, TheCommandLoadsNoCodecsAndNoQueues) {
  constexpr const char* kHeavy[] = {"libsqlite3.", "libzip.", "libpng16.", "libwebp.", "liblcms2."};
  constexpr const char* kOptional[] = {"libhiredis.", "libnats.", "libpq.",  "libavif.",
                                       "libjxl.",     "libtiff.", "libgif.", "libde265."};
  const std::string own = LibrariesOf(UPSCALE_BINARY);
  const std::string full = LibrariesOf(UPSCALE_FULL_BINARY);
  EXPECT_THAT(own, HasSubstr("libgrpc++."));
  for (const char* library : kHeavy) {
    EXPECT_THAT(full, HasSubstr(library));
    EXPECT_THAT(own, Not(HasSubstr(library)));
  }
  for (const char* library : kOptional) EXPECT_THAT(own, Not(HasSubstr(library)));
}

TEST(ProgramsTest, BothHaveTheSameCommands) {
  EXPECT_EQ(Help({UPSCALE_BINARY}), Help({UPSCALE_FULL_BINARY}));
  for (const char* command : {"image", "video", "submit", "jobs", "sign", "models", "info",
                              "devices", "usage", "health", "load"}) {
    const std::string help = Help({UPSCALE_BINARY, command});
    EXPECT_THAT(help, HasSubstr("--help")) << command;
    EXPECT_EQ(help, Help({UPSCALE_FULL_BINARY, command}));
  }
}

TEST_F(CliTest, SaysWhichProgramIsMissing) {
  const std::string alone = Path("upscale");
  std::filesystem::copy_file(UPSCALE_BINARY, alone);
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"jobs"},
                                             {"submit", "-i", "a.png", "-o", "large/"},
                                             {"video", "--help"},
                                             {"-i", "a.png", "-o", "b.png", "--spread"}}) {
    std::vector<std::string> command = {alone};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const ProcessResult result = Process(command).Wait();
    EXPECT_NE(result.exit_code, kExitOk) << arguments[0];
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat("cannot start ", alone, "-full")))
        << arguments[0];
  }
  EXPECT_EQ(Process({alone, "--version"}).Wait().exit_code, kExitOk);
}

TEST_F(CliTest, ReadsNoQueueThatIsNotThere) {
  for (const std::vector<std::string>& action : std::vector<std::vector<std::string>>{
           {}, {"cancel", "--all"}, {"follow", "00000000-0000-4000-8000-000000000000"}}) {
    std::vector<std::string> arguments = {"jobs", "--queue", Path("mistyped")};
    arguments.insert(arguments.end(), action.begin(), action.end());
    const ProcessResult result = Upscale(arguments, "", server_.endpoint());
    EXPECT_EQ(result.exit_code, kExitLocalError) << result.out;
    EXPECT_THAT(result.err, HasSubstr("no queue in"));
    EXPECT_FALSE(std::filesystem::exists(Path("mistyped")));
  }
}

TEST_F(CliTest, UpscalesAFile) {
  const std::string image = RandomBytes(300'001, 1);
  WriteText(Path("a.jpg"), image);
  const ProcessResult result = Image(Path("a.jpg"), Path("b.png"),
                                     {"-s",
                                      "3",
                                      "-n",
                                      "1",
                                      "-m",
                                      "fake",
                                      "-x",
                                      "-t",
                                      "64",
                                      "-q",
                                      "81",
                                      "--png-compression",
                                      "0",
                                      "--16-bit",
                                      "--precision",
                                      "fast",
                                      "--prefilter-space",
                                      "1.5",
                                      "--prefilter-range",
                                      "20"});
  EXPECT_EQ(result.exit_code, kExitOk) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, absl::StrCat(result.err.substr(0, result.err.find('\n')), "\n"));
  EXPECT_THAT(result.err, HasSubstr("30x20 -> 60x40"));
  EXPECT_EQ(ReadText(Path("b.png")), FakeResult(image));
  EXPECT_THAT(folder_.Files(), ElementsAre("a.jpg", "b.png"));

  const v1::UpscaleImageStart start = server_.starts().at(0);
  const v1::UpscaleOptions& options = start.options();
  EXPECT_EQ(start.total_bytes(), 300'001);
  EXPECT_EQ(options.scale(), 3);
  EXPECT_EQ(options.noise_level(), 1);
  EXPECT_EQ(options.model(), "fake");
  EXPECT_TRUE(options.tta());
  EXPECT_EQ(options.prefilter().sigma_space(), 1.5);
  EXPECT_EQ(options.prefilter().sigma_range(), 20);
  EXPECT_EQ(options.tile_px(), 64);
  EXPECT_EQ(options.quality(), 81);
  EXPECT_TRUE(options.has_png_compression());
  EXPECT_EQ(options.png_compression(), 0);
  EXPECT_TRUE(options.keep_16_bit());
  EXPECT_EQ(options.precision(), v1::PRECISION_FAST);
  EXPECT_EQ(options.format(), v1::IMAGE_FORMAT_PNG);
}

TEST_F(CliTest, SendsEachChoiceByItsName) {
  WriteText(Path("a.jpg"), "image");
  const ProcessResult result = Image(Path("a.jpg"), Path("b.png"),
                                     {"-n",
                                      "auto",
                                      "--width",
                                      "30",
                                      "--height",
                                      "40",
                                      "--fit",
                                      "cover",
                                      "--max-pixels",
                                      "5000000000",
                                      "--no-enlarge",
                                      "--alpha",
                                      "resample",
                                      "--alpha-colour",
                                      "keep",
                                      "--keep-colours",
                                      "off",
                                      "--metadata",
                                      "strip-location",
                                      "--on-damage",
                                      "fill",
                                      "--frame",
                                      "first",
                                      "--depth",
                                      "8"});
  EXPECT_EQ(result.exit_code, kExitOk) << result.err;
  const v1::UpscaleImageStart start = server_.starts().at(0);
  const v1::UpscaleOptions& options = start.options();
  EXPECT_TRUE(options.auto_noise());
  EXPECT_FALSE(options.has_noise_level());
  EXPECT_EQ(options.size().fit(), v1::FIT_COVER);
  EXPECT_EQ(options.max_pixels(), 5'000'000'000);
  EXPECT_TRUE(options.no_enlarge());
  EXPECT_EQ(options.alpha(), v1::ALPHA_METHOD_RESAMPLE);
  EXPECT_EQ(options.alpha_colour(), v1::ALPHA_COLOUR_KEEP);
  EXPECT_TRUE(options.has_keep_colours());
  EXPECT_FALSE(options.keep_colours());
  EXPECT_EQ(options.metadata(), v1::METADATA_POLICY_STRIP_LOCATION);
  EXPECT_EQ(options.on_damage(), v1::DAMAGE_POLICY_FILL);
  EXPECT_EQ(options.frame(), 1);
  EXPECT_EQ(options.depth(), v1::DEPTH_8);
}

// A new option of the contract fails here until it has a flag.
TEST_F(CliTest, HasAFlagForEveryOptionOfTheContract) {
  WriteText(Path("a.jpg"), "image");
  const std::string calls[] = {
      "-m fake -n 1 -s 3 --max-pixels 9000000 --no-enlarge -x --seamless -f webp -q 81 "
      "--png-compression 0 --16-bit --precision fast -t 64 --prefilter-space 2 "
      "--prefilter-range 20 --alpha resample --alpha-colour keep --keep-colours off "
      "--metadata strip --on-damage fill --frame 2",
      "-n auto --width 30 --depth 8"};
  std::set<std::string> sent;
  for (const std::string& flags : calls) {
    const ProcessResult result = Image(Path("a.jpg"), Path("b.webp"), absl::StrSplit(flags, ' '));
    ASSERT_EQ(result.exit_code, kExitOk) << result.err;
    const v1::UpscaleOptions options = server_.starts().back().options();
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    options.GetReflection()->ListFields(options, &fields);
    for (const auto* field : fields) sent.insert(field->name());
  }
  const auto* const message = v1::UpscaleOptions::descriptor();
  for (int i = 0; i < message->field_count(); ++i) {
    EXPECT_THAT(sent, testing::Contains(message->field(i)->name()));
  }
}

TEST_F(CliTest, UnderstandsTheFlagsOfTheNcnnUpscalers) {
  WriteText(Path("a.jpg"), "image");
  const ProcessResult result = Upscale({"-i", Path("a.jpg"), "-o", Path("b.png"), "-s", "2", "-n",
                                        "1", "-t", "0", "-j", "1:3:2", "-x", "-f", "png", "-v"},
                                       "", server_.endpoint());
  EXPECT_EQ(result.exit_code, kExitOk) << result.err;
  const v1::UpscaleImageStart start = server_.starts().at(0);
  EXPECT_EQ(start.options().scale(), 2);
  EXPECT_EQ(start.options().noise_level(), 1);
  EXPECT_EQ(start.options().tile_px(), 0);
  EXPECT_TRUE(start.options().tta());
  EXPECT_EQ(start.options().format(), v1::IMAGE_FORMAT_PNG);
}

TEST_F(CliTest, TakesSeveralInputs) {
  WriteText(Path("a.jpg"), "image");
  WriteText(Path("b.png"), "image");
  const ProcessResult result = Upscale(
      {"image", "-i", Path("a.jpg"), Path("b.png"), "-o", Path("out/")}, "", server_.endpoint());
  EXPECT_EQ(result.exit_code, kExitOk) << result.err;
  EXPECT_THAT(result.err, HasSubstr("2 upscaled"));
  EXPECT_TRUE(std::filesystem::exists(Path("out/a.jpg")));
  EXPECT_TRUE(std::filesystem::exists(Path("out/b.png")));
}

TEST_F(CliTest, TellsItsVersion) {
  const ProcessResult result = Upscale({"--version"});
  EXPECT_EQ(result.exit_code, kExitOk);
  EXPECT_THAT(result.out, testing::StartsWith("upscale "));
}

TEST_F(CliTest, SendsNothingThatWasNotAskedFor) {
  WriteText(Path("a.jpg"), "image");
  EXPECT_EQ(Image(Path("a.jpg"), Path("b.jpg")).exit_code, kExitOk);
  v1::UpscaleOptions expected;
  expected.set_format(v1::IMAGE_FORMAT_JPEG);
  EXPECT_EQ(server_.starts().at(0).options().SerializeAsString(), expected.SerializeAsString());
}

TEST_F(CliTest, SendsSpansToACollector) {
  const FakeHttpServer collector(
      [](const FakeHttpRequest&) { return FakeAnswer("200 OK", "", ""); });
  WriteText(Path("a.jpg"), "image");
  const ProcessResult result =
      Image(Path("a.jpg"), Path("b.jpg"), {"--trace-endpoint", collector.url()});
  EXPECT_EQ(result.exit_code, kExitOk) << result.err;
  const auto requests = collector.requests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_THAT(requests[0].body, HasSubstr("UpscaleImage"));
  const ProcessResult lost =
      Image(Path("a.jpg"), Path("b.jpg"), {"--trace-endpoint", "http://127.0.0.1:1"});
  EXPECT_EQ(lost.exit_code, kExitOk) << lost.err;
  EXPECT_THAT(lost.err, HasSubstr("upscale: warning: spans are lost: "));
}

TEST_F(CliTest, FixedWidthKeepsProportions) {
  WriteText(Path("a.jpg"), "image");
  EXPECT_EQ(Image(Path("a.jpg"), Path("b.jpg"), {"--width", "123"}).exit_code, kExitOk);
  EXPECT_EQ(server_.starts().at(0).options().size().width_px(), 123);
  EXPECT_EQ(server_.starts().at(0).options().size().height_px(), 0);
}

TEST_F(CliTest, PipesStandardInputToStandardOutput) {
  const std::string image = RandomBytes(700'003, 2);
  const ProcessResult result =
      Upscale({"image", "-i", "-", "-o", "-", "-f", "webp"}, image, server_.endpoint());
  EXPECT_EQ(result.exit_code, kExitOk) << result.err;
  EXPECT_EQ(result.out, FakeResult(image));
  EXPECT_EQ(server_.starts().at(0).options().format(), v1::IMAGE_FORMAT_WEBP);
  EXPECT_EQ(server_.starts().at(0).total_bytes(), 0);
}

TEST_F(CliTest, WritesToADevice) {
  WriteText(Path("a.png"), "image");
  EXPECT_EQ(Image(Path("a.png"), "/dev/null").exit_code, kExitOk);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(CliTest, ReplacesThroughALink) {
  WriteText(Path("a.png"), "image");
  WriteText(Path("real/b.png"), "old");
  std::filesystem::create_symlink(Path("real/b.png"), Path("b.png"));
  EXPECT_EQ(Image(Path("a.png"), Path("b.png")).exit_code, kExitOk);
  EXPECT_TRUE(std::filesystem::is_symlink(Path("b.png")));
  EXPECT_EQ(ReadText(Path("real/b.png")), FakeResult("image"));
}

TEST_F(CliTest, FolderGoesOnPastBadFilesAndListsThem) {
  for (const char* name : {"in/a.png", "in/sub/b.JPG", "in/sub/deep/c.webp"}) {
    WriteText(Path(name), name);
  }
  WriteText(Path("in/bad1.png"), "bad image");
  WriteText(Path("in/sub/bad2.png"), "bad image");
  WriteText(Path("in/notes.txt"), "text");
  WriteText(Path("in/.hidden.png"), "hidden");
  const ProcessResult result = Image(Path("in"), Path("out"), {"-j", "3"});
  EXPECT_EQ(result.exit_code, kExitSomeFailed) << result.err;
  EXPECT_THAT(result.err, HasSubstr("3 upscaled, 0 skipped, 2 failed, 0 not tried"));
  const std::string list = result.err.substr(result.err.find("Failed:"));
  EXPECT_THAT(list, HasSubstr("in/bad1.png: not an image [INVALID_IMAGE]"));
  EXPECT_THAT(list, HasSubstr("in/sub/bad2.png: not an image"));
  EXPECT_EQ(ReadText(Path("out/sub/deep/c.webp")), FakeResult("in/sub/deep/c.webp"));
  EXPECT_THAT(folder_.Files(),
              ElementsAre("in/.hidden.png", "in/a.png", "in/bad1.png", "in/notes.txt",
                          "in/sub/b.JPG", "in/sub/bad2.png", "in/sub/deep/c.webp", "out/a.png",
                          "out/sub/b.JPG", "out/sub/deep/c.webp"));
}

TEST_F(CliTest, ResumeSkipsWhatIsThere) {
  WriteText(Path("in/a.png"), "a");
  WriteText(Path("in/b.png"), "b");
  WriteText(Path("out/a.webp"), "done before");
  const ProcessResult result = Image(Path("in"), Path("out"), {"-f", "webp", "--resume"});
  EXPECT_EQ(result.exit_code, kExitOk) << result.err;
  EXPECT_THAT(result.err, HasSubstr("1 upscaled, 1 skipped, 0 failed"));
  EXPECT_EQ(ReadText(Path("out/a.webp")), "done before");
  EXPECT_EQ(ReadText(Path("out/b.webp")), FakeResult("b"));
  EXPECT_EQ(server_.calls(), 1);
}

TEST_F(CliTest, FolderStopsWhenTheServerIsLost) {
  for (int i = 0; i < 5; ++i) WriteText(Path(absl::StrCat("in/", i, ".png")), "image");
  server_.OnImage(
      [](FakeImageCall&) { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone"); });
  const ProcessResult result = Image(Path("in"), Path("out"), {"-j", "1", "--retries", "0"});
  EXPECT_EQ(result.exit_code, kExitCannotConnect);
  EXPECT_THAT(result.err, HasSubstr("0 upscaled, 0 skipped, 1 failed, 4 not tried"));
  EXPECT_EQ(server_.calls(), 1);
}

TEST_F(CliTest, JsonHasAnObjectAFile) {
  WriteText(Path("in/a.png"), "image");
  WriteText(Path("in/bad.png"), "bad");
  const ProcessResult result = Image(Path("in"), Path("out"), {"--json", "-j", "1"});
  EXPECT_EQ(result.exit_code, kExitSomeFailed);
  std::vector<nlohmann::json> objects;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) objects.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_EQ(objects[0]["status"], "ok");
  EXPECT_EQ(objects[0]["input"], Path("in/a.png"));
  EXPECT_EQ(objects[0]["output"], Path("out/a.png"));
  EXPECT_EQ(objects[0]["source"]["bytes"], 5);
  EXPECT_EQ(objects[0]["result"]["width_px"], 60);
  EXPECT_EQ(objects[0]["result"]["format"], "png");
  EXPECT_EQ(objects[0]["model"], "fake");
  EXPECT_EQ(objects[0]["server_timings_s"]["total"], 0.25);
  EXPECT_EQ(objects[0]["attempts"], 1);
  EXPECT_EQ(objects[1]["status"], "failed");
  EXPECT_EQ(objects[1]["error"]["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(objects[1]["error"]["origin"], "server");
  EXPECT_EQ(objects[1]["error"]["reason"], "INVALID_IMAGE");
  EXPECT_EQ(objects[1]["error"]["metadata"]["limit"], "7");
}

TEST_F(CliTest, FilesThatAreLeftOutAreCountedAndNamed) {
  WriteText(Path("in/a.png"), "image");
  WriteText(Path("in/b.psd"), {"8BPS\0\1", 6});
  WriteText(Path("in/sub/c.txt"), "hello");
  const ProcessResult plain = Image(Path("in"), Path("out"));
  EXPECT_EQ(plain.exit_code, kExitOk) << plain.err;
  EXPECT_THAT(plain.err, HasSubstr("1 upscaled, 0 skipped, 0 failed, 0 not tried, 2 left out"));
  const ProcessResult verbose = Image(Path("in"), Path("out"), {"-v"});
  EXPECT_THAT(verbose.err, HasSubstr("in/b.psd: a Photoshop document, which is not read"));
  EXPECT_THAT(verbose.err, HasSubstr("in/sub/c.txt: text, which is not read"));
  const ProcessResult json = Image(Path("in"), Path("out"), {"--json"});
  std::map<std::string, std::string> reasons;
  std::istringstream lines(json.out);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json object = nlohmann::json::parse(line);
    if (object["status"] == "left_out") reasons[object["input"]] = object["reason"];
  }
  EXPECT_EQ(reasons, (std::map<std::string, std::string>{
                         {Path("in/b.psd"), "a Photoshop document, which is not read"},
                         {Path("in/sub/c.txt"), "text, which is not read"}}));
}

TEST_F(CliTest, AFolderThatCannotBeReadIsAFailure) {
  if (geteuid() == 0) GTEST_SKIP() << "root reads every folder";
  WriteText(Path("in/a.png"), "image");
  WriteText(Path("in/shut/b.png"), "image");
  std::filesystem::permissions(Path("in/shut"), std::filesystem::perms::none);
  const ProcessResult result = Image(Path("in"), Path("out"));
  std::filesystem::permissions(Path("in/shut"), std::filesystem::perms::owner_all);
  EXPECT_EQ(result.exit_code, kExitSomeFailed) << result.err;
  EXPECT_THAT(result.err, HasSubstr("1 upscaled, 0 skipped, 1 failed"));
  EXPECT_THAT(result.err, HasSubstr("in/shut"));
}

TEST_F(CliTest, AFormatThatTheNameBeliesIsWarnedAbout) {
  WriteText(Path("a.png"), "image");
  const ProcessResult result = Image(Path("a.png"), Path("o.png"), {"-f", "jpg"});
  EXPECT_EQ(result.exit_code, kExitOk) << result.err;
  EXPECT_THAT(result.err, HasSubstr("warning: "));
  EXPECT_THAT(result.err, HasSubstr("o.png is written as jpeg"));
}

TEST_F(CliTest, BadArgumentsExitWith1) {
  WriteText(Path("a.png"), "image");
  WriteText(Path("film.mkv"), "film");
  std::filesystem::create_directories(Path("folder"));
  const std::string a = Path("a.png"), b = Path("b.png");
  const struct {
    std::vector<std::string> arguments;
    const char* message;
  } kCases[] = {
      {{}, "'upscale -i cat.png -o cat-2x.png' upscales an image"},
      {{"paint"}, "'paint' is no command"},
      {{"cat.png", "cat-2x.png"}, "upscale -i cat.png -o RESULT"},
      {{"image", "-i", a}, "--output is required"},
      {{"image", "-i", a, "--ouput", b}, "There is no flag --ouput; did you mean --output?"},
      {{"-i", a, "-o", b, "--widht=9"}, "There is no flag --widht; did you mean --width?"},
      {{"models", "--jso"}, "There is no flag --jso; did you mean --json?"},
      {{"image", "-i", a, "-o", b, "--frobnicate"}, "There is no flag --frobnicate\n"},
      {{"image", "-i", a, "-o", b, "-s", "17"}, "16"},
      {{"image", "-i", a, "-o", b, "-s", "0"}, "16"},
      {{"image", "-i", a, "-o", b, "-n", "4"}, "3"},
      {{"image", "-i", a, "-o", b, "-t", "31"}, "4096"},
      {{"image", "-i", a, "-o", b, "-q", "101"}, "100"},
      {{"image", "-i", a, "-o", b, "-f", "gif"}, "webp"},
      {{"image", "-i", a, "-o", b, "--fit", "cover"}, "--fit requires"},
      {{"image", "-i", a, "-o", b, "--fit", "cover", "--width", "9"}, "--fit requires --height"},
      {{"image", "-i", a, "-o", b, "--fit", "cover", "--short-side", "9"}, "--fit requires"},
      {{"image", "-i", a, "-o", b, "-s", "2", "--width", "9"}, "excludes"},
      {{"image", "-i", a, "-o", b, "--fit", "stretch", "--height", "9"}, "--fit requires --width"},
      {{"image", "-i", a, "-o", b, "--fit", "cover", "-s", "2"}, "--fit"},
      {{"video", "-i", a, "-o", b, "--raw", "4x4"}, "4x4 is no WxH:FORMAT"},
      {{"video", "-i", a, "-o", b, "--raw", "4x4x4:gray"}, "4x4x4:gray is no WxH:FORMAT"},
      {{"video", "-i", a, "-o", b, "--raw", "4 x4:gray"}, "4 x4:gray is no WxH:FORMAT"},
      {{"video", "-i", a, "-o", b, "--raw", "4x+4:gray"}, "4x+4:gray is no WxH:FORMAT"},
      {{"video", "-i", a, "-o", b, "--raw", "4x4:gray:24:1"}, "gray:24:1 is no WxH:FORMAT"},
      {{"video", "-i", a, "-o", b, "--raw", "4x4:gray:24/"}, "the rate 24/ is none"},
      {{"video", "-i", a, "-o", b, "--raw", "4x4:gray:24/1/1"}, "the rate 24/1/1 is none"},
      {{"video", "-i", a, "-o", b, "--raw", "4x4:gray:24fps"}, "the rate 24fps is none"},
      {{"image", "-i", a, "-o", b, "--tls-ca", "x"}, "--tls"},
      {{"image", "-i", a, "-o", b, "--tls", "--tls-cert", a}, "needs its key"},
      {{"image", "-i", a, "-o", b, "--server", "host:99999"}, "65535"},
      {{"image", "-i", a, "-o", "-", "--json"}, "--json and -o -"},
      {{"image", "-i", a, "-o", a}, "are the same"},
      {{"image", "-i", "https://example.org/a.png", "-o", b}, "not over gRPC"},
      {{"image", "-i", "https://example.org/a.png", "-o", b, "--spread"}, "not spread"},
      {{"image", "-i", "s3://bucket/a.png", "-o", b},
       "does not read s3://bucket/a.png; 'upscale s"},
      {{"image", "-i", a, "-o", "s3://bucket/b.png"}, "does not write to s3://bucket/b.png"},
      {{"image", "-i", a, "-o", "https://me:key@host/b.png"},
       "does not write to https://host/b.png"},
      {{"image", "-i", a, "-o", b, "--spread", "--local"}, "exclude each other"},
      {{"image", "-i", a, "-o", b, "--spread-calls", "3"}, "--spread"},
      {{"image", "-i", Path("folder"), "-o", a}, "is a folder"},
      {{"image", "-i", a, "-o", b, "-n", "realesrgan-x4plus"}, "to name a model, use -m"},
      {{"image", "-i", a, "-o", b, "-n", "7"}, "7 is not -1, 0, 1, 2, 3 or auto; the strongest"},
      {{"image", "-i", a, "-o", b, "-w", "9:box"}, "use -w 9"},
      {{"image", "-i", a, "-o", b, "-w", "9:default", "-s", "2"}, "excludes"},
      {{"image", "-i", a, "-o", b, "-m", Path("folder")}, "--model-repository"},
      {{"image", "-i", a, "-o", b, "-m", "models/x"}, "UPSCALED_MODEL_REPOSITORY=models/x"},
      {{"image", "-i", a, "-o", b, "-g", "0"}, "-g: the server chooses its devices"},
      {{"image", "-i", a, "-o", b, "-g", "-1"}, "upscaled --device cuda:0"},
      {{"image", "-i", a, "-o", b, "-c", "3"}, "-q or --png-compression"},
      {{"image", "-i", a, "-o", b, "-z", "4"}, "-s"},
      {{"image", "-i", a, "-o", b, "-r", "9x9"}, "--fit stretch"},
      {{"image", "-i", a, "-o", b, "-t", "0,8"}, "0,8 is not 32 to 4096"},
      {{"image", "-i", a, Path("folder"), "-o", b}, "there are 2 inputs"},
      {{"image", "-i", a, "-i", a, "-o", Path("new/")}, "would both become"},
      {{"image", "-i", Path("folder"), "-o", Path("folder")}, "are the same"},
      {{"load"}, "--image"},
      {{"load", "--size", "9"}, "WIDTHxHEIGHT"},
      {{"load", "--size", "99999x99999"}, "9999800001 pixels, above the limit of 16777216"},
      {{"load", "--size", "9x9", "--width", "9"}, "excludes --width"},
      {{"load", "--size", "9x9", "--tta"}, "excludes --tta"},
      {{"load", "--size", "9x9", "--prefilter-space", "2", "--prefilter-range", "9"},
       "excludes --prefilter-space"},
      {{"image", "-i", a, "-o", b, "--prefilter-space", "2"}, "--prefilter-range"},
      {{"image", "-i", a, "-o", b, "--prefilter-range", "2"}, "--prefilter-space"},
      {{"image", "-i", a, "-o", b, "--prefilter-space", "9", "--prefilter-range", "2"},
       "Value 9 not in range 0.100000 to 8.000000"},
      {{"load", "--size", "9x9", "-t", "64"}, "excludes --tile"},
      {{"load", "--size", "9x9", "-f", "png"}, "excludes --format"},
      {{"load", "--image", Path("folder")}, "is a folder"},
      {{"image", "-i", a, "-o", Path("b.gif")}, "b.gif is not named .png"},
      {{"submit", "-i", a, a, "-o", Path("y.png")}, "there are 2 inputs"},
      {{"submit", "--video", "-i", Path("film.mkv"), "-o", Path("film.mkv")}, "are the same"},
      {{"submit", "--video", "-i", Path("film.mkv"), "-o", Path("folder/../film.mkv")},
       "are the same"},
  };
  for (const auto& [arguments, message] : kCases) {
    const ProcessResult result = Upscale(arguments, "", server_.endpoint());
    EXPECT_EQ(result.exit_code, kExitBadArguments) << absl::StrJoin(arguments, " ") << result.err;
    EXPECT_THAT(result.err, HasSubstr(message)) << absl::StrJoin(arguments, " ");
  }
  EXPECT_EQ(server_.calls(), 0);
}

TEST_F(CliTest, HelpExitsWith0) {
  for (const char* command : {"image", "models", "info", "health", "load"}) {
    const ProcessResult result = Upscale({command, "--help"});
    EXPECT_EQ(result.exit_code, kExitOk);
    EXPECT_THAT(result.out, HasSubstr("--server"));
  }
}

TEST_F(CliTest, NobodyListeningExitsWith2) {
  WriteText(Path("a.png"), "image");
  const std::string nobody = "127.0.0.1:1";
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"image", "-i", Path("a.png"), "-o", Path("b.png"), "--retries", "0"},
           {"models", "--retries", "0"},
           {"info", "--retries", "0"},
           {"health"}}) {
    const ProcessResult result = Upscale(arguments, "", nobody);
    EXPECT_EQ(result.exit_code, kExitCannotConnect) << result.err;
    EXPECT_THAT(result.err, HasSubstr("cannot reach the server"));
  }
  EXPECT_THAT(folder_.Files(), ElementsAre("a.png"));
}

TEST_F(CliTest, ServerErrorExitsWith3AndLeavesNothing) {
  WriteText(Path("bad.png"), "bad");
  WriteText(Path("b.png"), "old");
  const ProcessResult result = Image(Path("bad.png"), Path("b.png"));
  EXPECT_EQ(result.exit_code, kExitRpcFailed);
  EXPECT_THAT(result.err, HasSubstr("not an image [INVALID_IMAGE]; check that the file"));
  EXPECT_EQ(ReadText(Path("b.png")), "old");
  EXPECT_THAT(folder_.Files(), ElementsAre("b.png", "bad.png"));
}

TEST_F(CliTest, LocalErrorsExitWith5BeforeAnythingIsSent) {
  WriteText(Path("a.png"), "image");
  EXPECT_EQ(Image(Path("none.png"), Path("b.png")).exit_code, kExitLocalError);
  const ProcessResult result = Image(Path("a.png"), Path("a.png/b.png"));
  EXPECT_EQ(result.exit_code, kExitLocalError);
  EXPECT_THAT(result.err, HasSubstr("a.png"));
  EXPECT_EQ(Image(Path("a.png"), "/proc/b.png").exit_code, kExitLocalError);
  EXPECT_EQ(server_.calls(), 0);
}

TEST_F(CliTest, AFolderWithoutImagesExitsWith5) {
  std::filesystem::create_directories(Path("in"));
  const ProcessResult result = Image(Path("in"), Path("out"));
  EXPECT_EQ(result.exit_code, kExitLocalError);
  EXPECT_THAT(result.err, HasSubstr("no images"));
  EXPECT_FALSE(std::filesystem::exists(Path("out")));
}

TEST_F(CliTest, ASlashMakesAFolder) {
  WriteText(Path("a.png"), "image");
  const ProcessResult result = Image(Path("a.png"), Path("new/folder/"));
  EXPECT_EQ(result.exit_code, kExitOk) << result.err;
  EXPECT_EQ(ReadText(Path("new/folder/a.png")), FakeResult("image"));
}

TEST_F(CliTest, ReadsANamedPipe) {
  const std::string image = RandomBytes(300'007, 4);
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  Process process({UPSCALE_BINARY, "image", "-i", Path("pipe"), "-o", Path("b.png")}, "",
                  server_.endpoint());
  WriteText(Path("pipe"), image);
  const ProcessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, kExitOk) << result.err;
  EXPECT_EQ(ReadText(Path("b.png")), FakeResult(image));
}

TEST_F(CliTest, LostOutputExitsWith5) {
  WriteText(Path("a.png"), "image");
  for (const std::string& arguments :
       {std::string("models"), std::string("health"), std::string("--help"),
        absl::StrCat("image --json -i ", Path("a.png"), " -o ", Path("b.png"))}) {
    const std::string command = absl::StrCat(UPSCALE_BINARY, " ", arguments, " >/dev/full");
    const ProcessResult result = Process({"/bin/sh", "-c", command}, "", server_.endpoint()).Wait();
    EXPECT_EQ(result.exit_code, kExitLocalError) << arguments;
    EXPECT_THAT(result.err, HasSubstr("cannot write to standard output")) << arguments;
  }
}

TEST_F(CliTest, ErrorsOfTlsAreOneLine) {
  const ProcessResult result =
      Upscale({"models", "--tls", "--retries", "0"}, "", server_.endpoint());
  EXPECT_EQ(result.exit_code, kExitCannotConnect);
  EXPECT_THAT(result.err, StartsWith("upscale: cannot reach the server"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST_F(CliTest, InterruptCancelsAndRemovesTheTemporaryFile) {
  WriteText(Path("a.png"), RandomBytes(5000, 3));
  absl::Notification half_way, cancelled;
  server_.OnImage([&](FakeImageCall& call) {
    call.ReceiveAll();
    call.SendHeader();
    call.SendResult(/*whole=*/false);
    half_way.Notify();
    call.WaitForCancellation();
    cancelled.Notify();
    return grpc::Status::CANCELLED;
  });
  Process process({UPSCALE_BINARY, "image", "-i", Path("a.png"), "-o", Path("b.png"), "--server",
                   server_.endpoint()});
  half_way.WaitForNotification();
  EXPECT_THAT(folder_.Files(), Not(ElementsAre("a.png")));
  process.Signal(SIGINT);
  const ProcessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, kExitInterrupted) << result.err;
  cancelled.WaitForNotification();
  EXPECT_THAT(folder_.Files(), ElementsAre("a.png"));
}

TEST_F(CliTest, RetriesAreTold) {
  WriteText(Path("a.png"), "image");
  server_.OnImage([](FakeImageCall& call) {
    if (call.number == 1) {
      return ServerError(grpc::StatusCode::RESOURCE_EXHAUSTED, "queue is full", "OVERLOADED",
                         absl::Milliseconds(1));
    }
    return FakeServer::Serve(call);
  });
  const ProcessResult result = Image(Path("a.png"), Path("b.png"), {"-v"});
  EXPECT_EQ(result.exit_code, kExitOk);
  EXPECT_THAT(result.err, HasSubstr("queue is full [OVERLOADED]"));
  EXPECT_THAT(result.err, HasSubstr("trying again in"));
  EXPECT_THAT(result.err, HasSubstr("tries 2"));
}

TEST_F(CliTest, HealthExitsAsTheProbeDoes) {
  const auto health = [&](std::vector<std::string> more = {}) {
    more.insert(more.begin(), "health");
    return Upscale(more, "", server_.endpoint());
  };
  EXPECT_EQ(health().exit_code, 0);
  EXPECT_EQ(health().out, "SERVING\n");
  EXPECT_EQ(health({"--service", "upscale.v1.UpscaleService"}).exit_code, 0);
  EXPECT_EQ(health({"--service", "nobody"}).exit_code, 3);
  EXPECT_EQ(health({"--nonsense"}).exit_code, 1);
  server_.SetHealth(grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(health().exit_code, 4);
}

TEST_F(CliTest, ModelsAndInfo) {
  const ProcessResult models = Upscale({"models"}, "", server_.endpoint());
  EXPECT_EQ(models.exit_code, kExitOk);
  EXPECT_THAT(models.out, HasSubstr("* fake"));
  EXPECT_THAT(models.out, HasSubstr("  other"));
  EXPECT_THAT(models.out, HasSubstr("4x-broken.pth: is no zip file"));
  const auto json =
      nlohmann::json::parse(Upscale({"models", "--json"}, "", server_.endpoint()).out);
  EXPECT_EQ(json["models"].size(), 2u);
  EXPECT_EQ(json["models"][1]["is_default"], false);

  const ProcessResult info = Upscale({"info"}, "", server_.endpoint());
  EXPECT_EQ(info.exit_code, kExitOk);
  EXPECT_THAT(info.out, HasSubstr("123456789"));
  EXPECT_THAT(info.out, HasSubstr("writes  png, webp"));
  EXPECT_THAT(info.out, HasSubstr("kernel  conv3x3_ws: slow, 0.50 times as fast: the shipped"));
  const ProcessResult devices = Upscale({"devices"}, "", server_.endpoint());
  EXPECT_EQ(devices.exit_code, kExitOk);
  EXPECT_THAT(devices.out, HasSubstr("kernel  conv3x3_ws: slow, 0.50 times as fast: the shipped"));
  EXPECT_THAT(devices.out, Not(HasSubstr("writes")));
  const auto info_json =
      nlohmann::json::parse(Upscale({"info", "--json"}, "", server_.endpoint()).out);
  EXPECT_EQ(info_json["limits"]["max_source_pixels"], 123456789);
}

// A server for files of one line each; it breaks within the second or does not.
class ExportServer final : public v1::AdminService::Service {
 public:
  ExportServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  std::string endpoint() const { return absl::StrCat("127.0.0.1:", port_); }

  std::atomic<bool> breaks = true;

 private:
  grpc::Status ExportModel(grpc::ServerContext*, const v1::ExportModelRequest*,
                           grpc::ServerWriter<v1::ExportModelResponse>* writer) override {
    for (const char* const extension : {".param", ".bin"}) {
      v1::ExportModelResponse piece;
      piece.set_extension(extension);
      piece.set_chunk("first half, ");
      writer->Write(piece);
      if (piece.extension() == ".bin" && breaks) return ServerError(grpc::INTERNAL, "broken", "");
      piece.set_chunk("second");
      writer->Write(piece);
    }
    return grpc::Status::OK;
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(CliTest, NoFileOfAnExportComesWithoutTheOthers) {
  ExportServer server;
  const std::string stem = Path("m");
  const std::vector<std::string> command = {"models", "export", "m", "--to", "ncnn", "-o", stem};
  EXPECT_EQ(Upscale(command, "", server.endpoint()).exit_code, kExitRpcFailed);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  server.breaks = false;
  const ProcessResult result = Upscale(command, "", server.endpoint());
  EXPECT_EQ(result.exit_code, kExitOk) << result.err;
  EXPECT_EQ(result.out, stem + ".bin\n" + stem + ".param\n");
  EXPECT_EQ(ReadText(stem + ".param"), "first half, second");
  EXPECT_EQ(ReadText(stem + ".bin"), "first half, second");
}

TEST_F(CliTest, AnExportMayBeNamedWithItsEnding) {
  ExportServer server;
  server.breaks = false;
  for (const char* name : {"m", "m.param", "m.bin", "m.BIN"}) {
    const std::vector<std::string> command = {"models", "export", "m",       "--to",
                                              "ncnn",   "-o",     Path(name)};
    const ProcessResult result = Upscale(command, "", server.endpoint());
    EXPECT_EQ(result.exit_code, kExitOk) << result.err;
    EXPECT_EQ(result.out, Path("m") + ".bin\n" + Path("m") + ".param\n") << name;
  }
  EXPECT_THAT(folder_.Files(), ElementsAre("m.bin", "m.param"));
}

TEST_F(CliTest, LoadCountsWhatTheServerSaw) {
  for (const bool image : {false, true}) {
    WriteText(Path("a.png"), "image");
    const int before = server_.calls();
    std::vector<std::string> arguments = {"load", "--clients", "2", "--seconds", "0.2", "--json"};
    if (image) {
      arguments.insert(arguments.end(), {"--image", Path("a.png")});
    } else {
      arguments.insert(arguments.end(), {"--size", "31x17"});
    }
    const ProcessResult result = Upscale(arguments, "", server_.endpoint());
    EXPECT_EQ(result.exit_code, kExitOk) << result.err;
    const auto json = nlohmann::json::parse(result.out);
    EXPECT_GT(json["requests"], 0);
    EXPECT_EQ(json["requests"], server_.calls() - before);
    EXPECT_THAT(json["errors"], IsEmpty());
    EXPECT_LE(json["latency_ms"]["p50"], json["latency_ms"]["max"]);
  }
}

TEST_F(CliTest, LoadShowsRefusals) {
  server_.OnTile([](int, const v1::Tile&) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full");
  });
  const ProcessResult result =
      Upscale({"load", "--seconds", "0.1", "--size", "8x8"}, "", server_.endpoint());
  EXPECT_EQ(result.exit_code, kExitRpcFailed);
  EXPECT_THAT(result.out, HasSubstr("RESOURCE_EXHAUSTED OVERLOADED"));
}

}  // namespace
}  // namespace upscaled::client
