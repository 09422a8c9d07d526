#include "server/identity/key_set.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "nlohmann/json.hpp"
#include "tests/support/signed_token.h"

namespace upscaled::server {
namespace {

using nlohmann::json;
using test::TokenSigner;
using ::testing::HasSubstr;

std::string SetOf(const std::vector<json>& keys) { return json{{"keys", keys}}.dump(); }

std::string RefusedSet(const std::vector<json>& keys) {
  return std::string(KeySet::Parse(SetOf(keys)).status().message());
}

json With(json jwk, const std::string& field, const json& value) {
  jwk[field] = value;
  return jwk;
}

TEST(KeySetTest, PassesOverWhatIsNotForItsSignatures) {
  const TokenSigner signer("ES256", "a");
  const json good = signer.Jwk();
  const auto set = KeySet::Parse(SetOf({With(good, "use", "enc"),
                                        With(good, "alg", "ES512"),
                                        With(good, "crv", "P-384"),
                                        {{"kty", "new"}},
                                        With(good, "more", "fields"),
                                        With(good, "kid", "b")}));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->size(), 2u);
  EXPECT_THAT(RefusedSet({With(good, "use", "enc")}), HasSubstr("has no key for signatures"));
  EXPECT_THAT(RefusedSet({}), HasSubstr("has no key"));
}

TEST(KeySetTest, NamesTheKeyThatIsWrong) {
  const json ec = TokenSigner("ES256", "a").Jwk(), ed = TokenSigner("EdDSA", "b").Jwk();
  EXPECT_THAT(RefusedSet({ec, 7}), HasSubstr("keys[1]: must be an object"));
  EXPECT_THAT(RefusedSet({ec, With(ed, "d", "AA")}), HasSubstr("keys[1]: is secret"));
  EXPECT_THAT(RefusedSet({{{"kty", "oct"}, {"k", "AA"}}}), HasSubstr("keys[0]: is secret"));
  EXPECT_THAT(RefusedSet({ec, ec}), HasSubstr("keys[1]: another key has this \"kid\""));
  EXPECT_THAT(RefusedSet({With(ec, "kid", "")}), HasSubstr("\"kid\" has 0 bytes"));
  EXPECT_THAT(RefusedSet({With(ec, "kid", 7)}), HasSubstr("\"kid\" must be a text"));
  EXPECT_THAT(RefusedSet({With(ec, "x", "a b")}), HasSubstr("\"x\" is no base64url"));
  EXPECT_THAT(RefusedSet({With(ec, "x", ec["y"])}), HasSubstr("no valid public key"))
      << "not on the curve";
  EXPECT_THAT(RefusedSet({With(ed, "x", "AAAA")}), HasSubstr("no valid public key"));
  json no_y = ec;
  no_y.erase("y");
  EXPECT_THAT(RefusedSet({no_y}), HasSubstr("has no \"y\""));
  EXPECT_THAT(RefusedSet(std::vector<json>(kMaxKeysOfSet + 1, ec)), HasSubstr("has 101 keys"));
  for (const char* text : {"", "[]", "{}", R"({"keys": 1})"}) {
    EXPECT_FALSE(KeySet::Parse(text).ok()) << text;
  }
}

TEST(KeySetTest, WantsRsaKeysThatAreNeitherWeakNorSlow) {
  EXPECT_THAT(RefusedSet({TokenSigner("RS256", "a", 1024).Jwk()}),
              HasSubstr("has 1024 bits; an RSA key must have 2048 to 8192"));
  json huge = TokenSigner("RS256").Jwk();
  huge["n"] = test::Base64Url(std::string(8193 / 8 + 1, '\xff'));
  EXPECT_THAT(RefusedSet({huge}), HasSubstr("bits"));
  EXPECT_THAT(RefusedSet({With(TokenSigner("RS256").Jwk(), "e", "AQ")}),
              HasSubstr("no valid public key"))
      << "everything is its own signature";
}

TEST(KeySetTest, WithoutAnIdTheAlgorithmsOnlyKeyIsMeant) {
  const TokenSigner one("EdDSA", "one"), two("EdDSA", "two"), rsa("RS256");
  const std::string token = one.Sign(json::object());
  const std::string_view message = std::string_view(token).substr(0, token.rfind('.'));
  const std::string signature = *DecodeBase64Url(token.substr(token.rfind('.') + 1));
  const auto verify = [&](const std::vector<json>& keys, std::string_view id) {
    return KeySet::Parse(SetOf(keys))->Verify(TokenAlgorithm::kEdDsa, id, message, signature).ok();
  };
  EXPECT_TRUE(verify({one.Jwk(), rsa.Jwk()}, ""));
  EXPECT_FALSE(verify({one.Jwk(), two.Jwk()}, "")) << "which of them?";
  EXPECT_TRUE(verify({one.Jwk(), two.Jwk()}, "one"));
  EXPECT_FALSE(verify({one.Jwk(), two.Jwk()}, "two"));
  EXPECT_FALSE(verify({one.Jwk(), two.Jwk()}, "three"));
}

TEST(Base64UrlTest, TakesTheOneWayToWriteThem) {
  EXPECT_EQ(DecodeBase64Url("AQID"), "\x01\x02\x03");
  EXPECT_EQ(DecodeBase64Url("_-8"), "\xff\xef");
  EXPECT_EQ(DecodeBase64Url(""), "");
  for (const char* text : {"_-9", "_-8=", "/+8", "A", "AQ ID", "AQI\n", "AQ==", "A.B"}) {
    EXPECT_FALSE(DecodeBase64Url(text)) << text;
  }
}

}  // namespace
}  // namespace upscaled::server
