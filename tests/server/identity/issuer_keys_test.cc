#include "server/identity/issuer_keys.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/identity/authenticator.h"
#include "tests/server/fetch/test_origin.h"
#include "tests/support/await.h"
#include "tests/support/fake_clock.h"
#include "tests/support/signed_token.h"

namespace upscaled::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// An issuer on the loopback address: its configuration and keys. A test may change them.
class TestIssuer {
 public:
  TestIssuer() { Publish(json{{"keys", {signer.Jwk()}}}.dump()); }

  std::string url() const { return origin_.Url(""); }
  void Publish(std::string key_set) {
    absl::MutexLock lock(&mutex_);
    key_set_ = std::move(key_set);
  }
  // Instead of the right one.
  void Configure(std::string configuration) {
    absl::MutexLock lock(&mutex_);
    configuration_ = std::move(configuration);
  }
  size_t requests() const { return origin_.requests().size(); }

  const test::TokenSigner signer{"EdDSA", "first"};

 private:
  void Answer(const std::string& header, const TestSocket& connection) {
    absl::MutexLock lock(&mutex_);
    if (absl::StartsWith(header, "GET /.well-known/openid-configuration ")) {
      const json right = {{"issuer", url()}, {"jwks_uri", origin_.Url("/keys")}, {"more", 1}};
      connection.Write(OkAnswer(configuration_.empty() ? right.dump() : configuration_));
    } else if (absl::StartsWith(header, "GET /keys ") && !key_set_.empty()) {
      connection.Write(OkAnswer(key_set_));
    } else {
      connection.Write("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    }
  }

  absl::Mutex mutex_;
  std::string configuration_ ABSL_GUARDED_BY(mutex_), key_set_ ABSL_GUARDED_BY(mutex_);
  const TestOrigin origin_{[this](const std::string& header, const TestSocket& connection) {
    Answer(header, connection);
  }};
};

TEST(FetchIssuerKeysTest, FollowsTheConfiguration) {
  const TestIssuer issuer;
  const auto text = FetchIssuerKeys({.url = issuer.url()});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(KeySet::Parse(*text)->size(), 1u);
  EXPECT_TRUE(FetchIssuerKeys({.url = issuer.url()}).ok());
}

TEST(FetchIssuerKeysTest, SaysWhatIsWrong) {
  TestIssuer issuer;
  const auto error = [&] {
    const auto text = FetchIssuerKeys({.url = issuer.url()});
    EXPECT_FALSE(text.ok());
    return std::string(text.status().message());
  };
  issuer.Publish("");
  EXPECT_THAT(error(), HasSubstr("/keys: answers with the status 503"));
  issuer.Publish("{}");
  EXPECT_THAT(error(), HasSubstr("/keys: "));
  issuer.Publish("{\"keys\": \"" + std::string(kMaxKeySetBytes, 'x'));
  EXPECT_THAT(error(), HasSubstr("has more than"));
  for (const auto& [configuration, why] :
       {std::pair<std::string, std::string>{"[]", "is no JSON object"},
        {"{", "is no JSON object"},
        {"{}", "has no \"issuer\""},
        {json{{"issuer", "https://other.example"}}.dump(), "is of the issuer"},
        {json{{"issuer", issuer.url() + "/"}}.dump(), "is of the issuer"},
        {json{{"issuer", issuer.url()}}.dump(), "has no \"jwks_uri\""},
        {json{{"issuer", issuer.url()}, {"jwks_uri", "http://a.example/"}}.dump(), "https://"},
        {json{{"issuer", issuer.url()}, {"jwks_uri", "file:///etc/passwd"}}.dump(), "must"}}) {
    issuer.Configure(configuration);
    EXPECT_THAT(error(), HasSubstr(why)) << configuration;
  }
  EXPECT_EQ(FetchIssuerKeys({.url = "http://127.0.0.1:1"}).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(CheckIssuerUrlTest, TakesTlsOrThisMachine) {
  for (const char* url : {"https://a.example", "https://a.example:8443/realms/b",
                          "http://127.0.0.1:8000", "http://localhost/x", "http://[::1]:1"}) {
    EXPECT_TRUE(CheckIssuerUrl(url).ok()) << url;
  }
  for (const char* url :
       {"", "us", "http://a.example", "http://127.0.0.1.evil.org", "ftp://a.example",
        "https://user@a.example", "https://a.example#b", "file:///a"}) {
    EXPECT_FALSE(CheckIssuerUrl(url).ok()) << url;
  }
}

TEST(IssuerKeysTest, KeepsWhatItHasWhenTheIssuerFails) {
  absl::Mutex mutex;
  absl::StatusOr<std::string> next = json{{"keys", {test::TokenSigner("EdDSA", "a").Jwk()}}}.dump();
  const auto set = [&](absl::StatusOr<std::string> value) {
    absl::MutexLock lock(&mutex);
    next = std::move(value);
  };
  const auto fetch = [&](const Issuer& issuer) {
    EXPECT_EQ(issuer.url, "https://a.example");
    absl::MutexLock lock(&mutex);
    return next;
  };
  Timer timer;
  IssuerKeys keys(timer, {.url = "https://a.example"}, absl::ZeroDuration(), fetch);
  keys.Await(absl::Seconds(60));
  const auto first = keys.get();
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(keys.TakeFailure().ok());
  set(absl::UnavailableError("gone"));
  keys.Request();
  test::Await([&] { return !keys.TakeFailure().ok(); });
  EXPECT_EQ(keys.get(), first);
  set(json{{"keys", {test::TokenSigner("EdDSA", "b").Jwk()}}}.dump());
  keys.Request();
  test::Await([&] { return keys.get() != first; });
}

TEST(IssuerKeysTest, IsNotAskedTooOften) {
  std::atomic<int> fetches = 0;
  Timer timer;
  IssuerKeys keys(timer, {.url = "https://a.example"}, absl::Hours(1), [&](const Issuer&) {
    ++fetches;
    return absl::StatusOr<std::string>(absl::UnavailableError("gone"));
  });
  keys.Await(absl::InfiniteDuration());
  for (int i = 0; i < 100; ++i) keys.Request();
  EXPECT_EQ(fetches, 1);
  EXPECT_EQ(keys.get(), nullptr);
}

class IssuerTest : public testing::Test {
 protected:
  ~IssuerTest() override { std::filesystem::remove(file_); }

  void WriteRules(const json& more = json::object()) {
    json tokens = {{"issuer", issuer_.url()}, {"audience", "upscaled"}};
    tokens.update(more);
    std::ofstream(file_) << json{{"keys", json::array()}, {"tokens", tokens}};
  }
  std::unique_ptr<Authenticator> Load() {
    auto loaded = Authenticator::Load(
        file_, clock_, timer_, [](const DeniedCaller&) {},
        /*issuer_min_interval=*/absl::ZeroDuration());
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? *std::move(loaded) : nullptr;
  }
  std::string Bearer(const test::TokenSigner& signer) {
    return "Bearer " + signer.Sign({{"iss", issuer_.url()},
                                    {"aud", "upscaled"},
                                    {"exp", absl::ToUnixSeconds(absl::Now() + absl::Hours(1))},
                                    {"sub", "anna"},
                                    {"tenant", "shop"},
                                    {"roles", "upscale"}});
  }
  static bool Takes(const Authenticator& authenticator, const std::string& bearer) {
    return authenticator.Authorize({.authorization = bearer}, "192.0.2.1", Role::kUpscale)
        .status.ok();
  }

  TestIssuer issuer_;
  FakeClock clock_;
  Timer timer_;
  const std::string file_ = absl::StrCat(testing::TempDir(), "/issuer_keys.", getpid(), ".json");
};

TEST_F(IssuerTest, KnowsTokensFromTheStart) {
  WriteRules();
  const auto authenticator = Load();
  EXPECT_TRUE(Takes(*authenticator, Bearer(issuer_.signer)));
  EXPECT_FALSE(Takes(*authenticator, Bearer(test::TokenSigner("EdDSA", "first"))));
  EXPECT_FALSE(*authenticator->ReloadIfChanged()) << "the same keys are no change";
}

TEST_F(IssuerTest, FollowsTheIssuersKeys) {
  WriteRules();
  const auto authenticator = Load();
  const std::string old = Bearer(issuer_.signer);
  const test::TokenSigner next("EdDSA", "next");
  EXPECT_TRUE(Takes(*authenticator, old));
  issuer_.Publish(json{{"keys", {issuer_.signer.Jwk(), next.Jwk()}}}.dump());
  EXPECT_FALSE(Takes(*authenticator, Bearer(next))) << "which has the issuer asked";
  test::Await([&] { return *authenticator->ReloadIfChanged(); });
  EXPECT_TRUE(Takes(*authenticator, Bearer(next)));
  EXPECT_TRUE(Takes(*authenticator, old));
  issuer_.Publish(json{{"keys", {next.Jwk()}}}.dump());
  EXPECT_FALSE(Takes(*authenticator, Bearer(test::TokenSigner("EdDSA", "none"))));
  test::Await([&] { return *authenticator->ReloadIfChanged(); });
  EXPECT_FALSE(Takes(*authenticator, old)) << "its key has been removed";
  EXPECT_TRUE(Takes(*authenticator, Bearer(next)));
}

TEST_F(IssuerTest, ABrokenFileKeepsNoKeyThatTheIssuerRemoved) {
  WriteRules();
  const auto authenticator = Load();
  const std::string old = Bearer(issuer_.signer);
  const test::TokenSigner next("EdDSA", "next");
  EXPECT_TRUE(Takes(*authenticator, old));
  std::ofstream(file_) << "{";
  EXPECT_FALSE(authenticator->ReloadIfChanged().ok());
  issuer_.Publish(json{{"keys", {next.Jwk()}}}.dump());
  EXPECT_FALSE(Takes(*authenticator, Bearer(next))) << "which has the issuer asked";
  test::Await([&] { return *authenticator->ReloadIfChanged(); });
  EXPECT_TRUE(Takes(*authenticator, Bearer(next)));
  EXPECT_FALSE(Takes(*authenticator, old));
  EXPECT_EQ(*authenticator->ReloadIfChanged(), false) << "the file's fault is told once";
}

TEST_F(IssuerTest, ABrokenKeySetEndsNoIssuer) {
  WriteRules();
  const auto authenticator = Load();
  const std::string name = absl::StrCat("broken_set.", getpid(), ".json");
  std::ofstream(testing::TempDir() + "/" + name) << "{";
  WriteRules({{"key_set", name}});
  EXPECT_FALSE(authenticator->ReloadIfChanged().ok());
  const test::TokenSigner next("EdDSA", "next");
  issuer_.Publish(json{{"keys", {next.Jwk()}}}.dump());
  EXPECT_FALSE(Takes(*authenticator, Bearer(next))) << "which has the issuer asked";
  test::Await([&] { return *authenticator->ReloadIfChanged(); });
  EXPECT_TRUE(Takes(*authenticator, Bearer(next)));
  std::filesystem::remove(testing::TempDir() + "/" + name);
}

TEST_F(IssuerTest, StartsWithoutItsIssuer) {
  issuer_.Publish("");
  WriteRules();
  const auto authenticator = Load();
  ASSERT_NE(authenticator, nullptr);
  EXPECT_FALSE(Takes(*authenticator, Bearer(issuer_.signer)));
  EXPECT_THAT(std::string(authenticator->ReloadIfChanged().status().message()),
              HasSubstr("status 503"));
  EXPECT_EQ(*authenticator->ReloadIfChanged(), false) << "told once";
}

TEST_F(IssuerTest, AFileStandsForTheIssuer) {
  const size_t before = issuer_.requests();
  const std::string name = absl::StrCat("issuer_set.", getpid(), ".json");
  std::ofstream(testing::TempDir() + "/" + name) << json{{"keys", {issuer_.signer.Jwk()}}};
  WriteRules({{"key_set", name}});
  EXPECT_TRUE(Takes(*Load(), Bearer(issuer_.signer)));
  EXPECT_EQ(issuer_.requests(), before);
  WriteRules({{"key_set", name}, {"ca", "ca.pem"}});
  const auto loaded = Authenticator::Load(file_, clock_, timer_, [](const DeniedCaller&) {});
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("\"ca\" is for an issuer"));
}

}  // namespace
}  // namespace upscaled::server
