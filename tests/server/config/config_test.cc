#include "server/config/config.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/config/places.h"
#include "server/config/settings.h"

namespace upscaled::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;

absl::StatusOr<ParsedConfig> Parse(std::vector<std::string> arguments,
                                   const Environment& environment = {}) {
  std::vector<const char*> argv = {"upscaled"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return ParseConfig(static_cast<int>(argv.size()), argv.data(), environment);
}

std::string Refusal(std::vector<std::string> arguments, const Environment& environment = {}) {
  const absl::Status status = Parse(std::move(arguments), environment).status();
  EXPECT_FALSE(status.ok());
  return std::string(status.message());
}

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

TEST(ParseConfigTest, DefaultsAreSafe) {
  const auto parsed = Parse({});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const ServerConfig& config = parsed->config;
  EXPECT_EQ(config.listen, "127.0.0.1:8001");
  EXPECT_EQ(config.http, "127.0.0.1:8000");
  EXPECT_EQ(config.admin, "127.0.0.1:8002");
  EXPECT_EQ(config.limits.max_source_pixels, 100'000'000);
  EXPECT_EQ(config.memory_budget_bytes, UsableMemoryBytes() / 2);
  EXPECT_EQ(config.weight_memory_bytes, UsableMemoryBytes() / 4);
  EXPECT_TRUE(config.fetch_allow.empty() && config.fetch_allow_private.empty());
  EXPECT_GT(config.spool_bytes, 0) << "browsers send all before they read";
  EXPECT_EQ(config.model_repositories.size(), 1u) << "the bundled models";
  EXPECT_EQ(parsed->printout, "");
}

TEST(ParseConfigTest, JobsHaveAQueueAndAStoreThatWorkersFind) {
  EXPECT_THAT(Refusal({"--job-queue=jobs"}), HasSubstr("need each other"));
  EXPECT_THAT(Refusal({"--job-store=jobs"}), HasSubstr("need each other"));
  const auto parsed =
      Parse({"--job-queue=redis://host", "--job-store=a/../jobs", "--job-retention=5m"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config.job_store, std::filesystem::current_path() / "jobs");
  EXPECT_EQ(parsed->config.job_retention, absl::Minutes(5));
}

TEST(ParseConfigTest, FlagsWinOverEnvironmentOverFile) {
  const std::string file =
      WriteFile("precedence.yaml", "threads: 1\nlisten: '127.0.0.1:1'\nhttp: off\n");
  const auto parsed =
      Parse({"--config", file, "--threads=3"},
            {{"UPSCALED_THREADS", "2"}, {"UPSCALED_LISTEN", "127.0.0.1:2"}, {"HOME", "/"}});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config.threads, 3);
  EXPECT_EQ(parsed->config.listen, "127.0.0.1:2");
  EXPECT_EQ(parsed->config.http, "");
  EXPECT_THAT(Refusal({"--threads=3"}, {{"UPSCALED_THREADS", "x"}}), HasSubstr("UPSCALED_THREADS"))
      << "wrong, whether it matters or not";
}

TEST(ParseConfigTest, ReadsJsonFilesNamedInTheEnvironment) {
  const std::string file =
      WriteFile("config.json", R"({"max_source_pixels": "5MP", "model-repository": [")" +
                                   testing::TempDir() + R"("]})");
  const auto parsed = Parse({}, {{"UPSCALED_CONFIG", file}});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config.limits.max_source_pixels, 5'000'000);
  EXPECT_EQ(parsed->config.model_repositories.front(), testing::TempDir());
}

TEST(ParseConfigTest, TakesSeveralDevices) {
  using testing::ElementsAre;
  const auto devices = [](std::vector<std::string> arguments, const Environment& environment = {}) {
    const auto parsed = Parse(std::move(arguments), environment);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return parsed->config.devices;
  };
  EXPECT_THAT(devices({}), ElementsAre("auto"));
  EXPECT_THAT(devices({"--device=opencl:0.1", "--device", "cpu"}),
              ElementsAre("opencl:0.1", "cpu"));
  EXPECT_THAT(devices({"--device", "opencl:0.1", "cpu"}), ElementsAre("opencl:0.1", "cpu"));
  EXPECT_THAT(devices({}, {{"UPSCALED_DEVICE", "opencl:0.1,cpu"}}),
              ElementsAre("opencl:0.1", "cpu"));
  const std::string file = WriteFile("devices.yaml", "device: [cpu, reference]\n");
  EXPECT_THAT(devices({"--config", file}), ElementsAre("cpu", "reference"));
  EXPECT_THAT(devices({"--config", file, "--device=cpu"}), ElementsAre("cpu"));
  const std::string empty = WriteFile("no-device.yaml", "device: ''\n");
  EXPECT_THAT(Refusal({"--config", empty}), HasSubstr("must not be empty"));
  EXPECT_THAT(devices({"--config", WriteFile("none.yaml", "device: []\n")}), ElementsAre("auto"));
  for (const char* wrong : {"[~]", "[cpu, null]", "[[cpu]]", "{cpu: 1}"}) {
    const std::string lines = std::string("device: ") + wrong + "\n";
    EXPECT_THAT(Refusal({"--config", WriteFile("wrong-devices.yaml", lines)}),
                HasSubstr("must be a value or a list of them"))
        << wrong;
  }
  EXPECT_THAT(devices({}, {{"UPSCALED_DEVICE", ","}}), ElementsAre("auto"));
  const auto printed = Parse({"--config", file, "--print-config"});
  EXPECT_THAT(printed->printout, HasSubstr("device:\n  - cpu\n  - reference"));
}

TEST(ParseConfigTest, ReadsPrefixesOfUrls) {
  const auto parsed =
      Parse({"--fetch-allow=https://a.example/b/", "--fetch-allow", "c.example"},
            {{"UPSCALED_FETCH_ALLOW_PRIVATE", "http://10.0.0.1:9000/a,b https://d.example"}});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->config.fetch_allow,
              testing::ElementsAre("https://a.example/b/", "c.example"));
  EXPECT_THAT(parsed->config.fetch_allow_private,
              testing::ElementsAre("http://10.0.0.1:9000/a,b", "https://d.example"));
  EXPECT_THAT(Refusal({"--fetch-allow=https://*"}),
              AllOf(HasSubstr("https://*"), HasSubstr("must")));
  EXPECT_THAT(Refusal({"--fetch-allow-private=https://u@a.example"}), HasSubstr("credentials"));
  EXPECT_THAT(Refusal({"--fetch-ca=/no/ca"}), HasSubstr("/no/ca"));
}

TEST(ParseConfigTest, RefusesNonsenseNamingSourceValueAndLimit) {
  EXPECT_THAT(Refusal({"--threads=-3"}),
              AllOf(HasSubstr("--threads"), HasSubstr("-3"), HasSubstr("0 to 4096")));
  EXPECT_THAT(Refusal({"--threads", "5000"}), AllOf(HasSubstr("5000"), HasSubstr("4096")));
  EXPECT_THAT(Refusal({"--listen", "localhost:99999"}),
              AllOf(HasSubstr("--listen"), HasSubstr("65535")));
  EXPECT_THAT(Refusal({"--listen", "off"}), HasSubstr("HOST:PORT"));
  EXPECT_THAT(Refusal({"--precision", "double"}), HasSubstr("exact, fast"));
  EXPECT_THAT(Refusal({"--model-repository", "/no/such/place"}), HasSubstr("/no/such/place"));
  EXPECT_THAT(Refusal({"--stall-timeout", "5"}), HasSubstr("unit"));
  EXPECT_THAT(Refusal({"--threads", "1", "--threads", "2"}), HasSubstr("more than once"));
  EXPECT_THAT(Refusal({}, {{"UPSCALED_LOG_LEVEL", "loud"}}),
              AllOf(HasSubstr("UPSCALED_LOG_LEVEL"), HasSubstr("debug, info")));
  EXPECT_THAT(Refusal({"--max-unary-bytes", "1TiB"}),
              AllOf(HasSubstr("--max-unary-bytes"), HasSubstr("1TiB"), HasSubstr("256MiB")));
  EXPECT_THAT(Refusal({"--max-tile-pixels", "65MP"}), AllOf(HasSubstr("65MP"), HasSubstr("64MP")));
  EXPECT_THAT(Refusal({"--tune", "load"}), HasSubstr("--tune-file"));
  EXPECT_THAT(Refusal({"--tune", "fast"}), HasSubstr("--tune-file"));
  EXPECT_THAT(Refusal({"--tune", "on", "--tune-file", "t"}), HasSubstr("off, load, fast, full"));
  EXPECT_THAT(Refusal({"--tls-cert", "/dev/null"}), HasSubstr("--tls-key"));
  EXPECT_THAT(Refusal({"--tls-cert", testing::TempDir(), "--tls-key", testing::TempDir()}),
              HasSubstr(testing::TempDir()));
  EXPECT_THAT(Refusal({"--tls-cert", "/no/cert", "--tls-key", "/no/key"}), HasSubstr("/no/cert"));
}

TEST(ParseConfigTest, SuggestsTheNearestName) {
  EXPECT_THAT(Refusal({"--max-sorce-pixels=1MP"}),
              AllOf(HasSubstr("--max-sorce-pixels"), HasSubstr("--max-source-pixels?")));
  EXPECT_THAT(Refusal({"--thread", "1"}), HasSubstr("--threads?"));
  EXPECT_THAT(Refusal({}, {{"UPSCALED_TREADS", "1"}}), HasSubstr("UPSCALED_THREADS?"));
  EXPECT_THAT(Refusal({"--config", WriteFile("typo.yaml", "lisen: a:1\n")}),
              AllOf(HasSubstr("typo.yaml"), HasSubstr("listen?")));
  EXPECT_THAT(Refusal({"upscale"}), HasSubstr("\"upscale\""));
  EXPECT_THAT(Refusal({"--models", "m"}), HasSubstr("did you mean --model-repository"));
  EXPECT_THAT(Refusal({"--gpu=0"}), HasSubstr("did you mean --device?"));
  EXPECT_THAT(Refusal({}, {{"UPSCALED_WORKERS", "1"}}), HasSubstr("UPSCALED_THREADS?"));
  EXPECT_THAT(Refusal({"--config", WriteFile("port.yaml", "port: 80\n")}),
              HasSubstr("did you mean listen or http?"));
  EXPECT_THAT(Refusal({"--frobnicate"}), HasSubstr("; upscaled --help lists them"));
  for (const std::string dashes : {"-", "---"}) {
    EXPECT_THAT(Refusal({dashes}), HasSubstr("unknown flag " + dashes));
  }
}

TEST(ParseConfigTest, LeavesForeignAndEmptyVariablesAlone) {
  const auto parsed = Parse({}, {{"UPSCALED_PORT", "tcp://10.0.0.1:8001"},
                                 {"UPSCALED_PORT_8001_TCP_ADDR", "10.0.0.1"},
                                 {"UPSCALED_SERVICE_HOST", "10.0.0.1"},
                                 {"UPSCALED_TEST_MODELS", "/models"},
                                 {"UPSCALED_THREADS", ""}});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config.threads, 0);
  EXPECT_THAT(Refusal({}, {{"UPSCALED_PORTS", "1"}}), HasSubstr("no such setting"));
}

TEST(ParseConfigTest, RefusesFilesItCannotUse) {
  EXPECT_THAT(Refusal({"--config", "/no/such/file"}), HasSubstr("/no/such/file"));
  EXPECT_THAT(Refusal({"--config", testing::TempDir()}), HasSubstr("is a directory"));
  EXPECT_THAT(Refusal({"--config", WriteFile("list.yaml", "- 1\n")}), HasSubstr("map of settings"));
  EXPECT_THAT(Refusal({"--config", WriteFile("broken.yaml", "a: [1\n")}), HasSubstr("broken.yaml"));
  for (const std::string text :
       {"threads: 1\nthreads: 2\n", "threads: 1\nthreads:\n", "{\"threads\": 1, \"threads\": 1}"}) {
    EXPECT_THAT(Refusal({"--config", WriteFile("twice.yaml", text)}),
                AllOf(HasSubstr("threads in"), HasSubstr("more than once")));
  }
  EXPECT_THAT(
      Refusal({"--config", WriteFile("spelled.yaml", "drain-timeout: 5s\ndrain_timeout: 7s\n")}),
      HasSubstr("drain-timeout in"));
  EXPECT_THAT(Refusal({"--config", WriteFile("two.yaml", "threads: 1\n---\nthreads: 1\n")}),
              HasSubstr("has 2 documents, must have one"));
  EXPECT_EQ(Parse({"--config", WriteFile("empty.yaml", "")}).status(), absl::OkStatus());
  EXPECT_THAT(Refusal({"--config", WriteFile("nested.yaml", "threads: {a: 1}\n")}),
              HasSubstr("threads in"));
}

TEST(ParseConfigTest, RefusesAPathThatIsTooLong) {
  const std::string name(5000, 'x');
  for (const std::string& path : {name, "/" + name, "./" + name + "/" + name}) {
    for (const std::string& refusal :
         {Refusal({"--model-repository", path}), Refusal({}, {{"UPSCALED_MODEL_REPOSITORY", path}}),
          Refusal({"--config", WriteFile("long.yaml", "model-repository: " + path + "\n")})}) {
      EXPECT_THAT(refusal, AllOf(HasSubstr("is no directory that can be read"),
                                 HasSubstr("File name too long"),
                                 HasSubstr(std::to_string(path.size()) + " characters")));
      EXPECT_LT(refusal.size(), 1000u);
    }
    EXPECT_FALSE(Refusal({"--config", path}).empty());
    EXPECT_FALSE(Refusal({"--tls-cert", path, "--tls-key", path}).empty());
  }
}

TEST(ParseConfigTest, BodiesMayDoWithoutDisk) {
  const auto none = Parse({"--spool-bytes=0"});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->config.spool_bytes, 0);
  const auto some = Parse({"--spool-bytes=64MiB", "--spool-dir=/var/tmp"});
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_EQ(some->config.spool_bytes, int64_t{64} << 20);
  EXPECT_EQ(some->config.spool_dir, "/var/tmp");
  EXPECT_THAT(Refusal({"--spool-bytes=-1"}), HasSubstr("spool-bytes"));
}

TEST(ParseConfigTest, HelpNamesEverySetting) {
  const auto parsed = Parse({"--threads=x", "--help"});
  ASSERT_TRUE(parsed.ok());
  ServerConfig config;
  CLI::App app;
  for (const Setting& setting : AddSettings(app, config)) {
    EXPECT_THAT(parsed->printout, HasSubstr("--" + std::string(setting.name)));
    EXPECT_THAT(SettingsMarkdown(), HasSubstr("`--" + std::string(setting.name) + " "));
  }
}

TEST(ParseConfigTest, WhatPrintConfigPrintsReadsBack) {
  const std::string odd = testing::TempDir() + "a: b #c";
  std::filesystem::create_directory(odd);
  const auto first =
      Parse({"--threads=5", "--http=off", "--max-queue-pixels=7MP", "--model-repository", odd,
             "--model-repository", testing::TempDir(), "--print-config"});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(first->printout, AllOf(HasSubstr("threads: 5\n"), HasSubstr("http: off\n"),
                                     HasSubstr("max-queue-pixels: 7MP\n")));
  const auto second = Parse({"--config", WriteFile("printed.yaml", first->printout)});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->config.threads, 5);
  EXPECT_EQ(second->config.http, "");
  ASSERT_GE(second->config.model_repositories.size(), 2u);
  EXPECT_EQ(second->config.model_repositories[0], odd);
  EXPECT_EQ(second->config.model_repositories[1], testing::TempDir());
}

TEST(IdentityConfigTest, NobodyServesTheNetworkByMistake) {
  for (const char* flag : {"--listen", "--http", "--admin"}) {
    for (const char* address : {"0.0.0.0:0", "[::]:0", "192.0.2.1:80", "example.org:80"}) {
      EXPECT_THAT(Refusal({flag, address}),
                  AllOf(HasSubstr(std::string(flag) + " " + address), HasSubstr("--auth-keys"),
                        HasSubstr("--allow-anonymous")));
      EXPECT_TRUE(Parse({flag, address, "--allow-anonymous"}).ok());
    }
    for (const char* address : {"127.0.0.1:0", "[::1]:0", "localhost:0", "unix:/tmp/x.sock"}) {
      EXPECT_TRUE(Parse({flag, address}).ok()) << address;
    }
  }
  const std::string keys = WriteFile("keys.json", "{\"keys\": []}");
  const auto parsed = Parse({"--listen=0.0.0.0:0", "--auth-keys", keys});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config.auth_keys, keys);
  EXPECT_THAT(Refusal({"--auth-keys", keys, "--allow-anonymous"}), HasSubstr("exclude each other"));
  EXPECT_THAT(Refusal({"--auth-keys", "/nowhere/keys.json"}), HasSubstr("/nowhere/keys.json"));
}

TEST(ProxiesConfigTest, AreAddressesAndNetworks) {
  const auto parsed = Parse({"--trusted-proxies=127.0.0.1", "--trusted-proxies", "2001:db8::/32"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->config.trusted_proxies, testing::ElementsAre("127.0.0.1", "2001:db8::/32"));
  EXPECT_TRUE(Parse({"--trusted-proxies=unix"}).ok());
  EXPECT_THAT(Refusal({"--trusted-proxies=proxy.example"}),
              AllOf(HasSubstr("proxy.example"), HasSubstr("10.0.0.0/8")));
}

TEST(IdentityConfigTest, AllowAnonymousIsASwitch) {
  EXPECT_FALSE(Parse({})->config.allow_anonymous);
  EXPECT_TRUE(Parse({"--allow-anonymous"})->config.allow_anonymous);
  EXPECT_TRUE(Parse({"--allow-anonymous", "--threads=1"})->config.allow_anonymous);
  EXPECT_TRUE(Parse({"--allow-anonymous=on"})->config.allow_anonymous);
  EXPECT_TRUE(Parse({}, {{"UPSCALED_ALLOW_ANONYMOUS", "on"}})->config.allow_anonymous);
  EXPECT_FALSE(Parse({"--allow-anonymous=off"}, {{"UPSCALED_ALLOW_ANONYMOUS", "on"}})
                   ->config.allow_anonymous);
  const std::string file = WriteFile("anonymous.yaml", "allow-anonymous: on\n");
  EXPECT_TRUE(Parse({"--config", file})->config.allow_anonymous);
  EXPECT_THAT(Refusal({"--allow-anonymous=perhaps"}), HasSubstr("must be one of on, off"));
}

}  // namespace
}  // namespace upscaled::server
