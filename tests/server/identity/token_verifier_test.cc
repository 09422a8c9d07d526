#include "server/identity/token_verifier.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/support/signed_token.h"

namespace upscaled::server {
namespace {

using nlohmann::json;
using test::Base64Url;
using test::TokenSigner;

json Claims() {
  return {{"iss", "us"},   {"aud", "upscaled"}, {"exp", 2'000'000'000},
          {"sub", "anna"}, {"tenant", "shop"},  {"roles", {"upscale"}}};
}

TokenVerifier VerifierOf(const std::vector<const TokenSigner*>& signers) {
  json keys = json::array();
  for (const TokenSigner* signer : signers) keys.push_back(signer->Jwk());
  return TokenVerifier({.issuer = "us",
                        .audience = "upscaled",
                        .key_set = "",
                        .tenant_claim = "tenant",
                        .roles_claim = "roles"},
                       *KeySet::Parse(json{{"keys", keys}}.dump()));
}

class TokenAlgorithmTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, TokenAlgorithmTest, ::testing::Values("RS256", "ES256", "EdDSA"));

TEST_P(TokenAlgorithmTest, KnowsItsSignatures) {
  const TokenSigner signer(GetParam(), "k"), stranger(GetParam(), "k");
  const TokenVerifier verifier = VerifierOf({&signer});
  const std::string token = signer.Sign(Claims());
  const auto entry = verifier.Verify(token);
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ((*entry)->principal.name, "token:anna");
  EXPECT_EQ(verifier.Verify(stranger.Sign(Claims())).status().code(),
            absl::StatusCode::kUnauthenticated);
  json other = Claims();
  other["tenant"] = "else";
  const std::string payload = Base64Url(other.dump());
  const size_t first = token.find('.'), last = token.rfind('.');
  EXPECT_FALSE(verifier.Verify(token.substr(0, first + 1) + payload + token.substr(last)).ok());
  EXPECT_FALSE(verifier.Verify(token.substr(0, last + 1)).ok()) << "no signature";
  const std::string signature = *DecodeBase64Url(token.substr(last + 1));
  for (const size_t at : {size_t{0}, signature.size() / 2, signature.size() - 1}) {
    std::string changed = signature;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(verifier.Verify(token.substr(0, last + 1) + Base64Url(changed)).ok()) << at;
  }
  EXPECT_FALSE(verifier.Verify(token.substr(0, last + 1) + Base64Url(signature + "x")).ok());
  EXPECT_FALSE(verifier.Verify(token.substr(0, last + 1) + Base64Url(signature.substr(1))).ok());
}

TEST_P(TokenAlgorithmTest, MixesNoKeyWithAnotherAlgorithm) {
  const TokenSigner rsa("RS256", "k"), ec("ES256", "k"), ed("EdDSA", "k");
  const TokenVerifier verifier = VerifierOf({&rsa, &ec, &ed});
  for (const TokenSigner* signer : {&rsa, &ec, &ed}) {
    json header = signer->Header();
    const bool right = header["alg"] == GetParam();
    header["alg"] = GetParam();
    EXPECT_EQ(verifier.Verify(signer->Sign(header, Claims().dump())).ok(), right)
        << signer->Header();
  }
}

TEST(TokenVerifierTest, KnowsWhatItHasVerified) {
  const TokenSigner signer("EdDSA");
  const TokenVerifier verifier = VerifierOf({&signer});
  const std::string token = signer.Sign(Claims());
  EXPECT_EQ(verifier.Find(token), nullptr);
  const auto entry = verifier.Verify(token);
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ(verifier.Find(token), *entry);
  EXPECT_EQ(verifier.Find(token + "A"), nullptr);
  json other = Claims();
  other["aud"] = "else";
  const std::string wrong = signer.Sign(other);
  EXPECT_FALSE(verifier.Verify(wrong).ok());
  EXPECT_EQ(verifier.Find(wrong), nullptr);
}

TEST(TokenVerifierTest, ForgetsTheOldestOfMany) {
  const TokenSigner signer("EdDSA");
  const TokenVerifier verifier = VerifierOf({&signer});
  json claims = Claims();
  const auto token_of = [&](int i) {
    claims["sub"] = absl::StrCat("user-", i);
    return signer.Sign(claims);
  };
  constexpr int kTokens = 2 * 4096 + 1;
  for (int i = 0; i < kTokens; ++i) ASSERT_TRUE(verifier.Verify(token_of(i)).ok());
  EXPECT_EQ(verifier.Find(token_of(0)), nullptr);
  EXPECT_NE(verifier.Find(token_of(kTokens - 4096)), nullptr);
  EXPECT_NE(verifier.Find(token_of(kTokens - 1)), nullptr);
}

}  // namespace
}  // namespace upscaled::server
