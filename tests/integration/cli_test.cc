// The real command with the real server, over gRPC and HTTP, on Unix sockets and with --local: the
// same bytes and the same errors on every way.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "client/cli/exit_code.h"
#include "engine/base/unique_fd.h"
#include "engine/base/unix_address.h"
#include "nlohmann/json.hpp"
#include "tests/client/fake_http_server.h"
#include "tests/client/process.h"
#include "tests/client/temp_folder.h"
#include "tests/integration/test_server.h"
#include "tests/support/await.h"
#include "tests/support/certificates.h"
#include "tests/support/server_process.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

namespace fs = std::filesystem;

using client::Process;
using client::ProcessResult;
using client::ReadText;
using client::TempFolder;
using client::WriteText;
using test::ServerProcess;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

ProcessResult Upscale(Words words, const std::string& input = "") {
  words.insert(words.begin(), UPSCALE_BINARY);
  return Process(words, input).Wait();
}

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class CliTest : public ::testing::Test {
 protected:
  CliTest() {
    // For the command and for servers of its own, with their folders in temporary_.
    setenv("UPSCALED_DEVICE", "cpu", /*overwrite=*/1);
    setenv("UPSCALED_THREADS", "2", 1);
    setenv("TMPDIR", temporary_.path().c_str(), 1);
  }
  ~CliTest() override {
    for (const char* name : {"UPSCALED_DEVICE", "UPSCALED_THREADS", "TMPDIR"}) unsetenv(name);
  }

  std::string File(const std::string& name) const { return folder_ / name; }

  std::string MakeImage(const std::string& name, Size size) {
    const Image image = test::PhotoImage({size.width, size.height, 3, SampleType::kU8}, random_);
    WriteText(File(name), *test::Encode(image.view(), {}));
    return File(name);
  }

  TempFolder folder_, temporary_;
  std::mt19937 random_ = test::FreshRandom();
};

class CliServerTest : public CliTest {
 protected:
  void SetUp() override { ASSERT_TRUE(server_.AwaitReady()) << server_.log(); }

  Words Grpc() const { return {"--server", server_.grpc_address(), "--retries", "0"}; }
  Words Http() const { return {"--server", "http://" + server_.http_address(), "--retries", "0"}; }

  ServerProcess server_{UPSCALED_BINARY,
                        {"--listen=unix:" + (folder_ / "grpc.sock").string(), "--threads=2",
                         "--model-repository=engine/model/bundled"}};
};

TEST_F(CliTest, ModelsComeAndGoAsFiles) {
  const std::string models = folder_ / "models", file = File("mine");
  fs::create_directory(models);
  ServerProcess server(UPSCALED_BINARY, {"--threads=2", "--model-repository=" + models});
  ASSERT_TRUE(server.AwaitReady()) << server.log();
  const auto run = [&](Words words) {
    return Upscale(Words{"models"} + words + Words{"--server", server.admin_address()});
  };
  ProcessResult result = run({"export", "fast-2x", "--to", "onnx", "-o", file});
  ASSERT_EQ(result.exit_code, client::kExitOk) << result.err;
  EXPECT_EQ(result.out, file + ".onnx\n");
  EXPECT_EQ(run({"export", "fast-2x", "--to", "onnx", "-o", file + ".onnx"}).out, file + ".onnx\n");
  result = run({"add", file + ".onnx"});
  ASSERT_EQ(result.exit_code, client::kExitOk) << result.err;
  EXPECT_THAT(result.out, StartsWith("added mine: onnx, scale 2, 7992 multiply-adds a pixel"));
  EXPECT_TRUE(fs::exists(models + "/mine.onnx"));
  const std::string sha256 = result.out.substr(result.out.rfind(' ') + 1, 64);

  const std::string pair = File("pair");
  ASSERT_EQ(run({"export", "fast-2x", "--to", "ncnn", "-o", pair}).exit_code, client::kExitOk);
  result = run({"add", pair + ".param"});
  ASSERT_EQ(result.exit_code, client::kExitOk) << result.err;
  EXPECT_THAT(result.out, StartsWith("added pair: ncnn, scale 2, 7992 multiply-adds a pixel"));
  EXPECT_THAT(result.out, HasSubstr(", of its .bin "));
  EXPECT_EQ(ReadText(models + "/pair.bin"), ReadText(pair + ".bin"));
  EXPECT_THAT(
      run({"add", pair + ".param", "--name", "other.param", "--bin-sha256", std::string(64, '0')})
          .err,
      HasSubstr("the file's SHA-256 is "));
  EXPECT_THAT(run({"add", pair + ".param", "--name", "fifth.onnx"}).err,
              HasSubstr("only a .param has a .bin"));
  fs::remove(pair + ".bin");
  EXPECT_THAT(run({"add", pair + ".param", "--name", "third.param"}).err, HasSubstr("pair.bin"));
  EXPECT_FALSE(fs::exists(models + "/other.bin") || fs::exists(models + "/third.param"));

  client::FakeHttpServer web([&](const client::FakeHttpRequest& request) {
    return request.target == "/theirs.onnx?v=1"
               ? client::FakeAnswer("200 OK", "", ReadText(file + ".onnx"))
               : client::FakeAnswer("404 Not Found", "", "");
  });
  const std::string url = web.url() + "/theirs.onnx?v=1", wrong(64, '0');
  EXPECT_THAT(run({"add", url}).err, HasSubstr("needs its --sha256"));
  EXPECT_THAT(run({"add", url, "--sha256", wrong}).err, HasSubstr("the file's SHA-256 is "));
  EXPECT_THAT(run({"add", web.url() + "/none.pth", "--sha256", wrong}).err, HasSubstr("404"));
  EXPECT_FALSE(fs::exists(models + "/theirs.onnx"));
  result = run({"add", url, "--sha256", sha256, "--name", "renamed.onnx"});
  EXPECT_EQ(result.exit_code, client::kExitOk) << result.err;
  EXPECT_TRUE(fs::exists(models + "/renamed.onnx"));
}

TEST_F(CliServerTest, GivesTheSameBytesWhicheverWay) {
  const std::string in = MakeImage("in.png", {150, 97});
  for (const Words& options :
       {Words{},
        {"-s", "1.7", "-n", "1", "-f", "webp", "-q", "81"},
        {"--width", "333", "-x"},
        {"-m", "fast-2x", "-t", "48", "--16-bit", "--png-compression", "3"}}) {
    const Words image = Words{"image", "-i", in, "--json"} + options;
    const auto run = [&](const std::string& out, const Words& way) {
      const ProcessResult result = Upscale(image + Words{"-o", File(out)} + way);
      EXPECT_EQ(result.exit_code, client::kExitOk) << result.err;
      return nlohmann::json::parse(result.out);
    };
    const auto grpc = run("grpc", Grpc()), http = run("http", Http()),
               local = run("local", {"--local"});
    const std::string bytes = ReadText(File("grpc"));
    EXPECT_FALSE(bytes.empty());
    EXPECT_EQ(ReadText(File("http")), bytes);
    EXPECT_EQ(ReadText(File("local")), bytes);
    for (const char* member :
         {"source", "result", "model", "device", "tiles", "spared_pixels", "attempts"}) {
      EXPECT_EQ(http.at(member), grpc.at(member)) << member;
    }
    EXPECT_EQ(local.at("result"), grpc.at("result"));
  }
  EXPECT_TRUE(fs::is_empty(temporary_.path())) << "--local leaves nothing";
}

TEST_F(CliServerTest, FailsAlikeOverHttp) {
  WriteText(File("text.png"), "this is no image");
  const std::string in = MakeImage("in.png", {40, 30});
  const std::string image = ReadText(in);
  WriteText(File("cut.png"), image.substr(0, image.size() / 2));
  for (const Words& words : {Words{"-i", File("text.png")},
                             {"-i", File("cut.png")},
                             {"-i", in, "-m", "no-such-model"},
                             {"-i", in, "--width", "1000000"}}) {
    const Words call = Words{"image", "-o", File("out.png")} + words;
    const ProcessResult grpc = Upscale(call + Grpc()), http = Upscale(call + Http());
    EXPECT_EQ(grpc.exit_code, client::kExitRpcFailed);
    EXPECT_EQ(http.exit_code, grpc.exit_code);
    EXPECT_EQ(http.err, grpc.err);
    EXPECT_FALSE(fs::exists(File("out.png")));
  }
}

TEST_F(CliServerTest, StreamsPipesAndFoldersOverHttp) {
  const std::string in = MakeImage("in/a.png", {700, 500});
  MakeImage("in/b/c.png", {20, 10});
  const ProcessResult piped =
      Upscale(Words{"image", "-i", "-", "-o", "-", "-f", "png"} + Http(), ReadText(in));
  EXPECT_EQ(piped.exit_code, client::kExitOk) << piped.err;
  const ProcessResult folder =
      Upscale(Words{"image", "-i", File("in"), "-o", File("out/")} + Http());
  EXPECT_EQ(folder.exit_code, client::kExitOk) << folder.err;
  EXPECT_EQ(ReadText(File("out/a.png")), piped.out);
  EXPECT_TRUE(fs::exists(File("out/b/c.png")));
}

TEST_F(CliServerTest, BelongsToTheTraceOfTheEnvironment) {
  const std::string trace = "0af7651916cd43dd8448eb211c80319c";
  setenv("TRACEPARENT", ("00-" + trace + "-b7ad6b7169203331-01").c_str(), 1);
  for (const Words& way : {Grpc(), Http()}) {
    const ProcessResult info = Upscale(Words{"info"} + way);
    EXPECT_EQ(info.exit_code, client::kExitOk) << info.err;
  }
  setenv("TRACEPARENT", "no\nheader", 1);
  const ProcessResult broken = Upscale(Words{"info"} + Grpc());
  unsetenv("TRACEPARENT");
  EXPECT_EQ(broken.exit_code, client::kExitOk) << broken.err;
  server_.Signal(SIGTERM);
  server_.Wait();
  size_t named = 0;
  const std::string log = server_.log();
  for (size_t at = log.find(trace); at != std::string::npos; at = log.find(trace, at + 1)) ++named;
  EXPECT_EQ(named, 2u) << log;
}

TEST_F(CliTest, ShowsTheUsageEvenAfterAKill) {
  const std::vector<std::string> flags = {"--usage-db=" + File("usage.db"), "--threads=2",
                                          "--model-repository=engine/model/bundled"};
  const auto ask = [](const ServerProcess& server, const Words& words) {
    const Words usage = {"usage", "--server", server.admin_address(), "--from", "2026-01-01"};
    return Upscale(usage + words);
  };
  std::string json;
  {
    ServerProcess server(UPSCALED_BINARY, flags);
    ASSERT_TRUE(server.AwaitReady()) << server.log();
    const std::string in = MakeImage("in.png", {20, 10}), out = File("out.png");
    const Words image = {"image", "-i", in, "-o", out, "--server", server.grpc_address()};
    EXPECT_EQ(Upscale(image).exit_code, client::kExitOk);
    const ProcessResult table = ask(server, {});
    EXPECT_EQ(table.exit_code, client::kExitOk) << table.err;
    EXPECT_THAT(table.out, StartsWith("DAY "));
    EXPECT_EQ(std::count(table.out.begin(), table.out.end(), '\n'), 2) << table.out;
    const ProcessResult wrong = ask(server, {"--to", "tomorrow"});
    EXPECT_EQ(wrong.exit_code, client::kExitRpcFailed);
    EXPECT_THAT(wrong.err, HasSubstr("\"tomorrow\" is no day like 2026-11-23"));
    ask(server, {});  // writes all calls so far, itself not among them
    server.Signal(SIGKILL);
    server.Wait();
  }
  ServerProcess server(UPSCALED_BINARY, flags);
  ASSERT_TRUE(server.AwaitReady()) << server.log();
  EXPECT_THAT(ask(server, {"--json"}).out,
              AllOf(HasSubstr("\"tenant\": \"\""), HasSubstr("\"source_pixels\": 200")));
}

TEST_F(CliServerTest, TellsOfItselfOverHttp) {
  for (const Words& words :
       {Words{"models"}, {"models", "--json"}, {"info"}, {"info", "--json"}, {"health"}}) {
    const ProcessResult grpc = Upscale(words + Grpc()), http = Upscale(words + Http());
    EXPECT_EQ(http.exit_code, client::kExitOk) << http.err;
    EXPECT_EQ(http.out, grpc.out);
  }
  for (const Words& words : {Words{"load", "--size", "8x8"}, {"models", "--reload"}, {"usage"}}) {
    const ProcessResult result = Upscale(words + Http());
    EXPECT_EQ(result.exit_code, client::kExitBadArguments);
    EXPECT_THAT(result.err, HasSubstr("needs a gRPC server"));
  }
  server_.Signal(SIGTERM);
  server_.Wait();
  const ProcessResult gone = Upscale(Words{"health"} + Http());
  EXPECT_EQ(gone.exit_code, client::kExitCannotConnect);
  EXPECT_THAT(gone.err, StartsWith("upscale: cannot reach the server"));
}

TEST_F(CliTest, HasTheServerFetchWhatAUrlNames) {
  const std::string in = MakeImage("in.png", {50, 31});
  const client::FakeHttpServer images([&](const client::FakeHttpRequest&) {
    return client::FakeAnswer("200 OK", "", ReadText(in));
  });
  ServerProcess server(UPSCALED_BINARY, {"--fetch-allow-private=" + images.url() + "/public/",
                                         "--threads=2", "--model-repository=engine/model/bundled"});
  ASSERT_TRUE(server.AwaitReady()) << server.log();
  const auto image = [&](const std::string& input, const std::string& output,
                         const std::string& address) {
    return Upscale({"image", "-i", input, "-o", output, "--server", address, "--retries", "0"});
  };
  const std::string http = "http://" + server.http_address(), url = images.url() + "/public/a.png";
  const ProcessResult sent = image(in, File("sent.png"), http);
  EXPECT_EQ(sent.exit_code, client::kExitOk) << sent.err;
  const ProcessResult fetched = image(url, File("out/"), http);
  EXPECT_EQ(fetched.exit_code, client::kExitOk) << fetched.err;
  EXPECT_EQ(ReadText(File("out/a.png")), ReadText(File("sent.png")));

  const ProcessResult refused = image(images.url() + "/private/b.png", File("out/"), http);
  EXPECT_EQ(refused.exit_code, client::kExitRpcFailed);
  EXPECT_THAT(refused.err, HasSubstr("[SOURCE_REFUSED]"));
  EXPECT_FALSE(fs::exists(File("out/b.png")));
  const ProcessResult grpc = image(url, File("b.png"), server.grpc_address());
  EXPECT_EQ(grpc.exit_code, client::kExitBadArguments);
  EXPECT_THAT(grpc.err, HasSubstr("not over gRPC"));
}

TEST_F(CliTest, TrustsHttpsAsTold) {
  for (const char* name : {"server", "stranger"}) {
    if (!test::MakeCertificate(folder_.path(), name, "IP:127.0.0.1")) GTEST_SKIP() << "no openssl";
  }
  ServerProcess server(UPSCALED_BINARY,
                       {"--tls-cert=" + File("server.pem"), "--tls-key=" + File("server.key"),
                        "--model-repository=engine/model/bundled"});
  ASSERT_TRUE(server.AwaitReady()) << server.log();
  const Words call = Words{
      "image", "-i",       MakeImage("in.png", {50, 31}),     "-o", File("out.png"), "--retries",
      "0",     "--server", "https://" + server.http_address()};
  const ProcessResult trusted = Upscale(call + Words{"--tls", "--tls-ca", File("server.pem")});
  EXPECT_EQ(trusted.exit_code, client::kExitOk) << trusted.err;
  EXPECT_TRUE(fs::exists(File("out.png")));
  const std::pair<Words, const char*> refusals[] = {
      {{}, "see --tls-ca"},
      {{"--tls", "--tls-ca", File("stranger.pem")}, "see --tls-ca"},
      {{"--tls", "--tls-ca", File("server.pem"), "--tls-server-name", "other.example"},
       "see --tls-server-name"}};
  for (const auto& [flags, advice] : refusals) {
    const ProcessResult refused = Upscale(call + flags);
    EXPECT_EQ(refused.exit_code, client::kExitCannotConnect) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(advice));
  }
}

bool Connects(const std::string& path) {
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = UnixAddress(path);
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

class CliLocalTest : public CliTest {
 protected:
  // The socket of a running command's server.
  std::string AwaitSocket() const {
    fs::path socket;
    test::Await([&] {
      for (const auto& folder : fs::directory_iterator(temporary_.path())) {
        socket = folder.path() / "upscaled.sock";
        if (fs::exists(socket)) return true;
      }
      return false;
    });
    return socket;
  }

  // A command with a call before its input.
  std::unique_ptr<Process> StartWaiting() {
    EXPECT_EQ(mkfifo(File("in.fifo").c_str(), 0600), 0);
    pipe_ = UniqueFd(open(File("in.fifo").c_str(), O_RDWR | O_CLOEXEC));
    return std::make_unique<Process>(Words{UPSCALE_BINARY, "image", "--local", "-i",
                                           File("in.fifo"), "-o", File("out/"), "-f", "png"});
  }

  UniqueFd pipe_;
};

TEST_F(CliLocalTest, UpscalesFoldersAndTellsOfModels) {
  MakeImage("in/a.png", {30, 20});
  MakeImage("in/b.png", {20, 10});
  setenv("UPSCALE_SERVER", "127.0.0.1:1", 1);  // --local goes before it
  const ProcessResult folder =
      Upscale({"image", "--local", "-i", File("in"), "-o", File("out"), "-j", "2"});
  unsetenv("UPSCALE_SERVER");
  EXPECT_EQ(folder.exit_code, client::kExitOk) << folder.err;
  EXPECT_EQ(folder.err, "2 upscaled, 0 skipped, 0 failed, 0 not tried\n");
  const ProcessResult models = Upscale({"models", "--local"});
  EXPECT_EQ(models.exit_code, client::kExitOk) << models.err;
  EXPECT_THAT(models.out, HasSubstr("general-2x"));
  EXPECT_THAT(models.out, HasSubstr("ARCHITECTURE INPUT"));
  EXPECT_TRUE(fs::is_empty(temporary_.path()));
}

TEST_F(CliLocalTest, ItsServerIsNotWhatTheEnvironmentSaysOfOthers) {
  const std::string in = MakeImage("in.png", {30, 20});
  WriteText(File("config.yaml"), "tls-cert: none.pem");
  const std::pair<const char*, std::string> variables[] = {{"UPSCALED_CONFIG", File("config.yaml")},
                                                           {"UPSCALED_LISTEN", "nowhere"},
                                                           {"UPSCALED_HTTP", "nowhere"},
                                                           {"UPSCALED_TLS_CERT", "none.pem"},
                                                           {"UPSCALED_RESULT_CACHE", File("cache")},
                                                           {"UPSCALED_MAX_CONNECTIONS", "none"}};
  for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
  const Words call = {"image", "--local", "-i", in, "-o", File("out.png")};
  const ProcessResult upscaled = Upscale(call);
  setenv("UPSCALED_MAX_SOURCE_PIXELS", "599", 1);
  const ProcessResult too_large = Upscale(call);
  unsetenv("UPSCALED_MAX_SOURCE_PIXELS");
  for (const auto& [name, value] : variables) unsetenv(name);
  EXPECT_EQ(upscaled.exit_code, client::kExitOk) << upscaled.err;
  EXPECT_FALSE(fs::exists(File("cache")));
  EXPECT_EQ(too_large.exit_code, client::kExitRpcFailed);
  EXPECT_THAT(too_large.err, HasSubstr("[LIMIT_EXCEEDED]"));

  WriteText(File("show.sh"), "#!/bin/sh\nenv > " + File("shown"));
  fs::permissions(File("show.sh"), fs::perms::owner_all);
  setenv("UPSCALE_API_KEY", "a-key", 1);
  Upscale(call + Words{"--local-server", File("show.sh")});
  unsetenv("UPSCALE_API_KEY");
  EXPECT_THAT(ReadText(File("shown")),
              AllOf(HasSubstr("NOTIFY_SOCKET="), testing::Not(HasSubstr("a-key"))));
}

TEST_F(CliLocalTest, SaysWhyItsServerDoesNotStart) {
  const Words call = {"image", "--local", "-i", MakeImage("in.png", {30, 20}), "-o", File("o.png")};
  setenv("UPSCALED_DEVICE", "no-such-device", 1);
  const ProcessResult refused = Upscale(call);
  EXPECT_EQ(refused.exit_code, client::kExitLocalError);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("exit status 2"), HasSubstr("no-such-device")));
  const ProcessResult other = Upscale(call + Words{"--local-server", "/bin/false"});
  EXPECT_EQ(other.exit_code, client::kExitLocalError);
  EXPECT_THAT(other.err, HasSubstr("exit status 1"));
  const ProcessResult missing = Upscale(call + Words{"--local-server", File("nothing")});
  EXPECT_EQ(missing.exit_code, client::kExitLocalError);
  EXPECT_THAT(missing.err, HasSubstr("cannot run " + File("nothing")));
  const ProcessResult both = Upscale(call + Words{"--server", "127.0.0.1:1"});
  EXPECT_EQ(both.exit_code, client::kExitBadArguments);
  EXPECT_THAT(both.err, HasSubstr("--local and --server"));
  const ProcessResult with_key = Upscale(call + Words{"--api-key-file", File("key")});
  EXPECT_EQ(with_key.exit_code, client::kExitBadArguments);
  EXPECT_THAT(with_key.err, HasSubstr("--local and --api-key-file"));
  EXPECT_FALSE(fs::exists(File("o.png")));
  EXPECT_TRUE(fs::is_empty(temporary_.path()));

  const std::string folder =
      temporary_.path() / std::string(82 - temporary_.path().string().size(), 'x');
  fs::create_directory(folder);
  setenv("TMPDIR", folder.c_str(), 1);
  const ProcessResult too_long = Upscale(call);  // for the server's socket, and not for the other
  EXPECT_EQ(too_long.exit_code, client::kExitBadArguments);
  EXPECT_THAT(too_long.err, HasSubstr("set TMPDIR to a shorter one"));
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(CliLocalTest, EndsItsServerWithItself) {
  for (const int signal : {SIGINT, SIGTERM}) {
    auto command = StartWaiting();
    const fs::path folder = fs::path(AwaitSocket()).parent_path();
    EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
    command->Signal(signal);
    const ProcessResult result = command->Wait();
    command.reset();  // and what it has kept the output in
    EXPECT_EQ(result.exit_code, client::kExitInterrupted) << result.err;
    EXPECT_TRUE(fs::is_empty(temporary_.path()));
    EXPECT_TRUE(!fs::exists(File("out")) || fs::is_empty(File("out")));
    fs::remove(File("in.fifo"));
  }
}

TEST_F(CliLocalTest, ItsServerDiesWithItHoweverItDies) {
  const auto command = StartWaiting();
  const fs::path socket = AwaitSocket(), folder = socket.parent_path();
  test::Await([&] { return !fs::exists(folder / "notify"); });  // the server is ready
  command->Signal(SIGKILL);
  command->Wait();
  test::Await([&] { return !Connects(socket); });
  test::Await([&] { return fs::is_empty(folder); });
}

TEST_F(CliTest, ShowsItsKeyToServersThatWantOne) {
  // "upscaled keys new" writes the key, then its entry.
  const ProcessResult made = Process({UPSCALED_BINARY, "keys", "new", "--role", "read"}).Wait();
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const size_t line = made.out.find('\n');
  const std::string key = made.out.substr(0, line);
  WriteText(File("key"), key + "\n");
  WriteText(File("keys.json"), "{\"keys\": [" + made.out.substr(line) + "]}");
  ServerProcess server(UPSCALED_BINARY, {"--auth-keys=" + File("keys.json"), "--threads=2",
                                         "--model-repository=engine/model/bundled"});
  ASSERT_TRUE(server.AwaitReady()) << server.log();
  const std::string in = MakeImage("in.png", {20, 10});
  for (const std::string& address : {server.grpc_address(), "http://" + server.http_address()}) {
    const Words way = {"--server", address, "--retries", "0"};
    const ProcessResult without = Upscale(Words{"models"} + way);
    EXPECT_EQ(without.exit_code, client::kExitRpcFailed);
    EXPECT_THAT(without.err, HasSubstr("[UNAUTHENTICATED]; the server wants a key"));
    EXPECT_EQ(Upscale(Words{"health"} + way).exit_code, client::kExitOk);
    const Words with_key = way + Words{"--api-key-file", File("key")};
    EXPECT_THAT(Upscale(Words{"models"} + with_key).out, HasSubstr("general-2x"));
    setenv("UPSCALE_API_KEY", key.c_str(), 1);
    const ProcessResult info = Upscale(Words{"info"} + way);
    const ProcessResult image = Upscale(Words{"image", "-i", in, "-o", File("out.png")} + way);
    unsetenv("UPSCALE_API_KEY");
    EXPECT_EQ(info.exit_code, client::kExitOk) << info.err;
    EXPECT_EQ(image.exit_code, client::kExitRpcFailed);
    EXPECT_THAT(image.err, AllOf(HasSubstr("lacks the role \"upscale\" [PERMISSION_DENIED]"),
                                 HasSubstr("another key"), testing::Not(HasSubstr(key))));
  }
  EXPECT_THAT(server.log(), testing::Not(HasSubstr(key.substr(4))));
}

}  // namespace
}  // namespace upscaled::server
