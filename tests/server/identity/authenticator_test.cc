#include "server/identity/authenticator.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "server/base/error.h"
#include "tests/support/fake_clock.h"
#include "tests/support/signed_token.h"

namespace upscaled::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHost[] = "192.0.2.1";

class AuthenticatorTest : public ::testing::Test {
 protected:
  AuthenticatorTest() {
    Write({EntryOf("reader", R"(["read"])"), EntryOf("uploader", R"(["upscale"])"),
           EntryOf("operator", R"(["admin"])"),
           EntryOf("old", R"(["upscale"])", "expires", absl::Now() - absl::Seconds(2)),
           EntryOf("early", R"(["upscale"])", "not_before", absl::Now() + absl::Hours(1)),
           EntryOf("timed", R"(["upscale"])", "expires", absl::Now() + absl::Hours(1))});
    auto loaded = Authenticator::Load(file_, clock_, timer_, [this](const DeniedCaller& caller) {
      denied_.push_back(absl::StrCat(std::string(DenialName(caller.denial)), ":",
                                     caller.principal == nullptr ? "" : caller.principal->name));
    });
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    authenticator_ = *std::move(loaded);
  }
  ~AuthenticatorTest() override { std::filesystem::remove(file_); }

  // One key for each name.
  const std::string& KeyNamed(const std::string& name) {
    std::string& key = keys_[name];
    if (key.empty()) key = *NewApiKey();
    return key;
  }
  std::string EntryOf(const std::string& name, const std::string& roles,
                      const std::string& field = "", absl::Time time = {}) {
    std::string more;
    if (!field.empty()) {
      more = absl::StrCat(", \"", field, "\": \"",
                          absl::FormatTime(absl::RFC3339_full, time, absl::UTCTimeZone()), "\"");
    }
    return absl::StrCat(R"({"name": ")", name, R"(", "tenant": "t", "roles": )", roles,
                        R"(, "sha256": ")", FormatKeyHash(*HashApiKey(KeyNamed(name))), "\"", more,
                        "}");
  }
  // As an editor with replaced files.
  void Write(const std::vector<std::string>& entries) {
    WriteText("{\"keys\": [" + absl::StrJoin(entries, ",") + "]}");
  }
  void WriteText(const std::string& text) {
    std::ofstream(file_ + ".new") << text;
    std::filesystem::rename(file_ + ".new", file_);
  }
  absl::Status Ask(const std::string& key, Role role = Role::kUpscale,
                   const std::string& host = kHost) {
    const std::string value = "Bearer " + key;
    return authenticator_->Authorize({.authorization = value}, host, role).status;
  }

  const std::string file_ = absl::StrCat(testing::TempDir(), "keys-", getpid(), ".json");
  std::map<std::string, std::string> keys_;
  FakeClock clock_;
  Timer timer_;
  std::vector<std::string> denied_;
  std::unique_ptr<Authenticator> authenticator_;
};

TEST_F(AuthenticatorTest, KnowsWhoCalls) {
  const auto [status, caller] =
      authenticator_->Authorize({.api_key = KeyNamed("uploader")}, kHost, Role::kRead);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(caller->name, "uploader");
  EXPECT_EQ(caller->tenant, "t");
  EXPECT_TRUE(Ask(KeyNamed("timed")).ok());
  EXPECT_TRUE(denied_.empty());
}

TEST_F(AuthenticatorTest, RolesRule) {
  for (const auto& [name, most] : {std::pair("reader", Role::kRead),
                                   {"uploader", Role::kUpscale},
                                   {"operator", Role::kAdmin}}) {
    for (const Role role : {Role::kRead, Role::kUpscale, Role::kAdmin}) {
      const auto [status, caller] =
          authenticator_->Authorize({.api_key = KeyNamed(name)}, kHost, role);
      EXPECT_EQ(status.ok(), role <= most) << name << " " << RoleName(role);
      ASSERT_NE(caller, nullptr) << "whose refusal it is";
      EXPECT_EQ(caller->name, name);
      if (status.ok()) continue;
      EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
      EXPECT_EQ(ReasonOf(status), ErrorReason::kPermissionDenied);
      EXPECT_EQ(MetadataOf(status).at("role"), RoleName(role));
    }
  }
}

TEST_F(AuthenticatorTest, WrongKeysAreAllAlikeButInTheLog) {
  const absl::Status unknown = Ask(*NewApiKey());
  EXPECT_EQ(unknown.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(ReasonOf(unknown), ErrorReason::kUnauthenticated);
  EXPECT_EQ(Ask(KeyNamed("old")), unknown);
  EXPECT_EQ(Ask(KeyNamed("early")), unknown);
  EXPECT_EQ(Ask("password"), unknown);
  const absl::Status missing = authenticator_->Authorize({}, kHost, Role::kRead).status;
  EXPECT_EQ(missing.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("needed"));
  EXPECT_THAT(denied_, ElementsAre("unknown_key:", "expired_key:old", "early_key:early",
                                   "unknown_key:", "no_key:"));
}

TEST_F(AuthenticatorTest, SlowsWrongKeysOfOneAddress) {
  const std::string wrong = *NewApiKey();
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(Ask(wrong).code(), absl::StatusCode::kUnauthenticated) << i;
  }
  const absl::Status slowed = Ask(wrong);
  EXPECT_EQ(slowed.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryDelayOf(slowed), absl::Seconds(5));
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(RetryDelayOf(Ask(wrong)), absl::Seconds(3));
  EXPECT_EQ(denied_.back(), "wrong_keys:");
  EXPECT_TRUE(Ask(KeyNamed("uploader")).ok()) << "a neighbour behind the same proxy";
  EXPECT_EQ(Ask(wrong, Role::kRead, "192.0.2.2").code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(authenticator_->Authorize({}, kHost, Role::kRead).status.code(),
            absl::StatusCode::kUnauthenticated);
  clock_.Advance(absl::Seconds(5));
  EXPECT_EQ(Ask(wrong).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Ask(wrong).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(AuthenticatorTest, ReadsWhatHasChanged) {
  EXPECT_EQ(*authenticator_->ReloadIfChanged(), false);
  // The reader's key goes; the uploader gets a second one.
  Write({EntryOf("uploader", R"(["upscale"])"), EntryOf("uploader-2", R"(["upscale"])")});
  EXPECT_EQ(*authenticator_->ReloadIfChanged(), true);
  EXPECT_EQ(authenticator_->key_count(), 2u);
  EXPECT_TRUE(Ask(KeyNamed("uploader")).ok());
  EXPECT_TRUE(Ask(KeyNamed("uploader-2")).ok());
  EXPECT_EQ(Ask(KeyNamed("reader"), Role::kRead).code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(AuthenticatorTest, KeepsItsKeysWhenTheFileBreaks) {
  WriteText("{\"keys\": [");
  EXPECT_THAT(std::string(authenticator_->ReloadIfChanged().status().message()), HasSubstr(file_));
  EXPECT_TRUE(Ask(KeyNamed("uploader")).ok());
  EXPECT_EQ(*authenticator_->ReloadIfChanged(), false) << "told once";
  std::filesystem::remove(file_);
  EXPECT_FALSE(authenticator_->ReloadIfChanged().ok());
  EXPECT_TRUE(Ask(KeyNamed("uploader")).ok());
  Write({});
  EXPECT_EQ(*authenticator_->ReloadIfChanged(), true);
  EXPECT_FALSE(Ask(KeyNamed("uploader")).ok()) << "revoked";
}

TEST_F(AuthenticatorTest, PrincipalsOutliveTheirKeys) {
  const auto [status, caller] =
      authenticator_->Authorize({.api_key = KeyNamed("uploader")}, kHost, Role::kRead);
  Write({});
  ASSERT_TRUE(authenticator_->Reload().ok());
  EXPECT_EQ(caller->name, "uploader");
}

TEST_F(AuthenticatorTest, RightKeysPassWhileOthersAreReplaced) {
  const std::string& key = KeyNamed("uploader");
  std::atomic<bool> stop = false;
  std::atomic<int> refused = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&] {
      while (!stop)
        refused += !authenticator_->Authorize({.api_key = key}, kHost, Role::kRead).status.ok();
    });
  }
  for (int i = 0; i < 50; ++i) {
    Write({EntryOf("uploader", R"(["upscale"])"), EntryOf(absl::StrCat("new-", i), R"(["read"])")});
    EXPECT_TRUE(authenticator_->Reload().ok());
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(refused, 0);
}

class TokenAuthenticatorTest : public AuthenticatorTest {
 protected:
  TokenAuthenticatorTest() {
    WriteKeySet(signer_);
    WriteWithTokens();
    EXPECT_TRUE(authenticator_->Reload().ok());
  }
  ~TokenAuthenticatorTest() override { std::filesystem::remove(key_set_); }

  void WriteKeySet(const test::TokenSigner& signer) {
    std::ofstream(key_set_ + ".new") << nlohmann::json{{"keys", {signer.Jwk()}}};
    std::filesystem::rename(key_set_ + ".new", key_set_);
  }
  void WriteWithTokens() {
    const nlohmann::json tokens = {
        {"issuer", "us"},
        {"audience", "upscaled"},
        {"key_set", std::filesystem::path(key_set_).filename().string()}};
    WriteText(absl::StrCat(
        "{\"keys\": [", EntryOf("uploader", R"(["upscale"])"),
        "], \"tenants\": {\"shop\": {\"weight\": 2}}, \"tokens\": ", tokens.dump(), "}"));
  }
  std::string Token(absl::Duration life = absl::Hours(1), const std::string& subject = "anna") {
    return signer_.Sign({{"iss", "us"},
                         {"aud", "upscaled"},
                         {"exp", absl::ToUnixSeconds(absl::Now() + life)},
                         {"sub", subject},
                         {"tenant", "shop"},
                         {"roles", "upscale"}});
  }

  const test::TokenSigner signer_{"EdDSA", "k"};
  const std::string key_set_ = file_ + ".jwks";
};

TEST_F(TokenAuthenticatorTest, KnowsTokensBesideKeys) {
  const std::string bearer = "Bearer " + Token();
  const auto [status, caller] =
      authenticator_->Authorize({.authorization = bearer}, kHost, Role::kUpscale);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(caller->name, "token:anna");
  EXPECT_EQ(caller->tenant, "shop");
  ASSERT_NE(caller->limits, nullptr);
  EXPECT_EQ(caller->limits->weight, 2);
  EXPECT_TRUE(Ask(KeyNamed("uploader")).ok());
  EXPECT_EQ(Ask(Token(), Role::kAdmin).code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(TokenAuthenticatorTest, WrongTokensAreAllAlikeButInTheLog) {
  const absl::Status unknown = Ask(*NewApiKey());
  EXPECT_EQ(unknown.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Ask("password"), unknown);
  EXPECT_EQ(Ask(Token(-absl::Minutes(1))), unknown);
  EXPECT_TRUE(Ask(Token(-absl::Seconds(20))).ok()) << "clocks may be 30 s apart";
  EXPECT_THAT(denied_, ElementsAre("unknown_key:", "wrong_token:", "expired_key:token:anna"));
}

TEST_F(TokenAuthenticatorTest, LooksAtFewWrongSignaturesOfOneAddress) {
  const std::string known = Token();
  ASSERT_TRUE(Ask(known).ok());
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Ask(Token(absl::Hours(1), absl::StrCat(i))).ok());
  const std::string wrong = Token() + "A";
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Ask(wrong).code(),
              i < 10 ? absl::StatusCode::kUnauthenticated : absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(denied_.back(), i < 10 ? "wrong_token:" : "wrong_keys:");
  }
  const std::string fresh = Token(absl::Hours(2));
  EXPECT_EQ(Ask(fresh).code(), absl::StatusCode::kResourceExhausted) << "not looked at";
  EXPECT_TRUE(Ask(known).ok());
  EXPECT_TRUE(Ask(fresh, Role::kUpscale, "192.0.2.2").ok());
  clock_.Advance(absl::Milliseconds(101));
  EXPECT_TRUE(Ask(Token(absl::Hours(3))).ok());
}

TEST_F(TokenAuthenticatorTest, AnotherKeySetForgetsWhatWasKnown) {
  const std::string token = Token();
  ASSERT_TRUE(Ask(token).ok());
  EXPECT_EQ(*authenticator_->ReloadIfChanged(), false);
  WriteKeySet(test::TokenSigner("EdDSA", "k"));
  EXPECT_EQ(*authenticator_->ReloadIfChanged(), true);
  EXPECT_EQ(Ask(token).code(), absl::StatusCode::kUnauthenticated);
  WriteKeySet(signer_);
  EXPECT_EQ(*authenticator_->ReloadIfChanged(), true);
  EXPECT_TRUE(Ask(token).ok());
  std::ofstream(key_set_) << "{";
  EXPECT_THAT(std::string(authenticator_->ReloadIfChanged().status().message()),
              HasSubstr(key_set_));
  EXPECT_EQ(*authenticator_->ReloadIfChanged(), false) << "told once";
  EXPECT_TRUE(Ask(token).ok());
  Write({});
  EXPECT_EQ(*authenticator_->ReloadIfChanged(), true);
  EXPECT_EQ(Ask(token).code(), absl::StatusCode::kUnauthenticated) << "no issuer any more";
}

TEST_F(AuthenticatorTest, KnowsCertificatesUnlessAKeyCameWithThem) {
  WriteText(absl::StrCat("{\"keys\": [", EntryOf("uploader", R"(["upscale"])"),
                         R"(], "certificates": [{"name": "worker", "san": "URI:spiffe://us/worker",
                             "tenant": "us", "roles": ["read"]}]})"));
  ASSERT_TRUE(authenticator_->Reload().ok());
  const std::vector<std::string> worker = {"DNS:other", "URI:spiffe://us/worker"},
                                 other = {"DNS:other"};
  const auto ask = [&](const std::string& key, const std::vector<std::string>& names, Role role) {
    return authenticator_->Authorize({.api_key = key, .certificate_names = &names}, kHost, role);
  };
  const auto [status, caller] = ask("", worker, Role::kRead);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(caller->name, "worker");
  EXPECT_EQ(ask("", worker, Role::kUpscale).status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ask(KeyNamed("uploader"), worker, Role::kUpscale).caller->name, "uploader");
  const Authorization wrong = ask(*NewApiKey(), worker, Role::kRead);
  EXPECT_EQ(wrong.status.code(), absl::StatusCode::kUnauthenticated)
      << "a wrong key is not made good";
  EXPECT_EQ(wrong.caller, nullptr);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ask("", other, Role::kRead).status.code(), absl::StatusCode::kUnauthenticated)
        << "nobody guesses certificates";
  }
  EXPECT_EQ(denied_.back(), "unknown_certificate:");
  const std::string bearer = "Bearer " + KeyNamed("admin");
  const Authorization two = authenticator_->Authorize(
      {.authorization = bearer, .api_key = KeyNamed("uploader")}, kHost, Role::kRead);
  EXPECT_EQ(two.status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(two.caller, nullptr);
  EXPECT_EQ(denied_.back(), "several_keys:");
}

TEST(AuthenticatorLoadTest, NamesTheFileThatItCannotRead) {
  FakeClock clock;
  Timer timer;
  const auto loaded =
      Authenticator::Load("/nowhere/keys.json", clock, timer, [](const DeniedCaller&) {});
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("/nowhere/keys.json"));
}

}  // namespace
}  // namespace upscaled::server
