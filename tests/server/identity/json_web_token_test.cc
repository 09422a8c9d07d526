#include "server/identity/json_web_token.h"

#include <string>

#include <gmock/gmock.h>

#include "nlohmann/json.hpp"
#include "tests/support/signed_token.h"

namespace upscaled::server {
namespace {

using nlohmann::json;
using test::Base64Url;
using ::testing::HasSubstr;

constexpr char kEs256[] = R"({"alg":"ES256"})";

std::string TokenWith(const std::string& header, const std::string& claims = "{}") {
  return Base64Url(header) + "." + Base64Url(claims) + ".AAAA";
}

std::string Refused(const std::string& token) {
  const auto parsed = ParseToken(token);
  EXPECT_FALSE(parsed.ok()) << token;
  return std::string(parsed.status().message());
}

TEST(ParseTokenTest, TakesItsParts) {
  const std::string token = TokenWith(R"({"alg":"ES256","kid":"k","typ":"at+JWT"})", "claims");
  const auto parsed = ParseToken(token);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->algorithm, TokenAlgorithm::kEs256);
  EXPECT_EQ(parsed->key_id, "k");
  EXPECT_EQ(parsed->signed_part, token.substr(0, token.rfind('.')));
  EXPECT_EQ(parsed->claims, "claims") << "nobody looks at them yet";
  EXPECT_EQ(parsed->signature, std::string(3, '\0'));
}

TEST(ParseTokenTest, TakesNoOtherAlgorithm) {
  for (const char* name : {"none", "None", "", "HS256", "HS512", "RS384", "RS512", "PS256", "ES384",
                           "ES512", "ES256K", "Ed448", "rs256", "eddsa", "RS256 "}) {
    EXPECT_THAT(Refused(TokenWith(json{{"alg", name}}.dump())), HasSubstr("\"alg\" is none of"));
  }
  EXPECT_THAT(Refused(TokenWith("{}")), HasSubstr("has no \"alg\""));
  EXPECT_THAT(Refused(TokenWith(R"({"alg":["RS256"]})")), HasSubstr("must be a text"));
  EXPECT_THAT(Refused(TokenWith(R"({"alg":"none","alg":"RS256"})")), HasSubstr("twice"));
}

TEST(ParseTokenTest, RefusesWhatItDoesNotUnderstand) {
  EXPECT_THAT(Refused(TokenWith(R"({"alg":"ES256","crit":["exp"]})")), HasSubstr("crit"));
  EXPECT_THAT(Refused(TokenWith(R"({"alg":"ES256","typ":"dpop+jwt"})")), HasSubstr("typ"));
  EXPECT_THAT(Refused(TokenWith(R"({"alg":"ES256","kid":7})")), HasSubstr("kid"));
  EXPECT_THAT(Refused(TokenWith(R"({"alg":"ES256","kid":""})")), HasSubstr("kid"));
  EXPECT_THAT(Refused(TokenWith("[]")), HasSubstr("no object"));
  EXPECT_THAT(Refused(TokenWith("ES256")), HasSubstr("no JSON"));
}

TEST(ParseTokenTest, RefusesOtherForms) {
  const std::string good = TokenWith(kEs256);
  ASSERT_TRUE(ParseToken(good).ok());
  for (const std::string& token :
       {std::string(), std::string("password"), std::string(".."), good + ".", good + ".AAAA",
        good + "=", good + "A", " " + good, good.substr(0, good.rfind('.'))}) {
    Refused(token);
  }
  EXPECT_THAT(Refused(good + std::string(kMaxTokenBytes, 'A')), HasSubstr("at most 8192"));
}

class ReadClaimsTest : public ::testing::Test {
 protected:
  absl::StatusOr<KeyEntry> Read(const json& changes = json::object()) const {
    json claims = {{"iss", "us"},   {"aud", "upscaled"}, {"exp", 2'000'000'000},
                   {"sub", "anna"}, {"org", "shop"},     {"scope", "openid upscale"}};
    claims.merge_patch(changes);  // null takes a field away
    return ReadClaims(claims.dump(), rules_);
  }
  std::string Refused(const json& changes) const {
    return std::string(Read(changes).status().message());
  }

  const TokenRules rules_{.issuer = "us",
                          .audience = "upscaled",
                          .key_set = "jwks.json",
                          .tenant_claim = "org",
                          .roles_claim = "scope"};
};

TEST_F(ReadClaimsTest, TellsForWhomTheyStandAndWhen) {
  const auto entry = Read({{"nbf", 1'000'000'000.5}});
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->principal.name, "token:anna");
  EXPECT_EQ(entry->principal.tenant, "shop");
  EXPECT_TRUE(entry->principal.roles.Has(Role::kUpscale));
  EXPECT_FALSE(entry->principal.roles.Has(Role::kAdmin));
  EXPECT_EQ(entry->expires, absl::FromUnixSeconds(2'000'000'030)) << "30 s of leeway";
  EXPECT_EQ(entry->not_before, absl::FromUnixMillis(999'999'970'500));
  EXPECT_EQ(Read()->not_before, absl::InfinitePast());
}

TEST_F(ReadClaimsTest, RolesAreAListOrAText) {
  const auto most = [&](const json& roles) {
    const RoleSet had = Read({{"scope", roles}})->principal.roles;
    return had.Has(Role::kAdmin) ? "admin" : had.Has(Role::kRead) ? "read" : "none";
  };
  EXPECT_STREQ(most("read email"), "read");
  EXPECT_STREQ(most({"admin", "else", 7}), "admin");
  for (const json& roles :
       {json(""), json("Admin administrator"), json::array(), json(7), json()}) {
    EXPECT_STREQ(most(roles), "none") << roles;
  }
}

TEST_F(ReadClaimsTest, RefusesThoseOfOthers) {
  EXPECT_THAT(Refused({{"iss", "them"}}), HasSubstr("another issuer"));
  EXPECT_THAT(Refused({{"iss", nullptr}}), HasSubstr("has no \"iss\""));
  for (const json& audience :
       {json("others"), json(), json({"others", 7}), json::array(), json(7)}) {
    EXPECT_THAT(Refused({{"aud", audience}}), HasSubstr("another audience")) << audience;
  }
  EXPECT_TRUE(Read({{"aud", {"others", "upscaled"}}}).ok());
}

TEST_F(ReadClaimsTest, RefusesThoseWithoutEndNameOrTenant) {
  EXPECT_THAT(Refused({{"exp", nullptr}}), HasSubstr("has no \"exp\""));
  for (const json& time : {json("2000000000"), json(-1), json(1e300), json::array()}) {
    EXPECT_THAT(Refused({{"exp", time}}), HasSubstr("\"exp\" must be seconds")) << time;
    EXPECT_THAT(Refused({{"nbf", time}}), HasSubstr("\"nbf\" must be seconds")) << time;
  }
  EXPECT_THAT(Refused({{"sub", nullptr}}), HasSubstr("has no \"sub\""));
  for (const std::string& name : {std::string(), std::string("a b"), std::string("a\nb"),
                                  std::string("\xc3\xa4"), std::string(129, 'a')}) {
    EXPECT_THAT(Refused({{"sub", name}}), HasSubstr("\"sub\" must be 1 to 128")) << name;
  }
  EXPECT_THAT(Refused({{"org", nullptr}}), HasSubstr("has no \"org\""));
  EXPECT_THAT(Refused({{"org", "a b"}}), HasSubstr("\"org\" is \"a b\""));
  EXPECT_FALSE(ReadClaims("[]", rules_).ok());
  EXPECT_FALSE(ReadClaims("{", rules_).ok());
}

}  // namespace
}  // namespace upscaled::server
