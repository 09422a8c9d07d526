#include "server/identity/api_key.h"

#include <set>

#include <gmock/gmock.h>

namespace upscaled::server {
namespace {

constexpr char kKey[] = "upk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

TEST(ApiKeyTest, NewKeysDiffer) {
  std::set<std::string> keys;
  for (int i = 0; i < 100; ++i) {
    const auto key = NewApiKey();
    ASSERT_TRUE(key.ok()) << key.status();
    EXPECT_TRUE(HashApiKey(*key).has_value()) << *key;
    EXPECT_TRUE(keys.insert(*key).second);
  }
}

TEST(ApiKeyTest, HashIsSha256OfTheWholeKey) {
  // printf '%s' "$key" | sha256sum
  EXPECT_EQ(FormatKeyHash(*HashApiKey(kKey)),
            "5465cf725859c822a98aa9637335afa9f3a48dd199cabc841920b3b1e610e82b");
  EXPECT_EQ(ParseKeyHash(FormatKeyHash(*HashApiKey(kKey))), HashApiKey(kKey));
}

TEST(ApiKeyTest, OnlyKeysOfTheFormAreHashed) {
  const std::string key = kKey;
  for (const std::string& wrong :
       {std::string(), std::string("password"), key.substr(1), key + "A", key.substr(0, 46) + "=",
        "UPK_" + key.substr(4), key.substr(0, 46) + '\0', std::string(1 << 20, 'A')}) {
    EXPECT_FALSE(HashApiKey(wrong).has_value()) << wrong.substr(0, 60);
  }
}

TEST(ApiKeyTest, OnlyHashesAreHashes) {
  for (const std::string& wrong : {std::string(), std::string(63, 'a'), std::string(65, 'a'),
                                   std::string(64, 'g'), std::string(64, 'A')}) {
    EXPECT_FALSE(ParseKeyHash(wrong).has_value()) << wrong;
  }
}

TEST(ApiKeyTest, KeysAreFoundInEitherPlace) {
  EXPECT_EQ(KeyOf({}), "");
  EXPECT_EQ(KeyOf({.api_key = "k"}), "k");
  EXPECT_EQ(KeyOf({.authorization = "Bearer k"}), "k");
  EXPECT_EQ(KeyOf({.authorization = "bearer  k "}), "k");
  EXPECT_EQ(KeyOf({.authorization = "Bearer k", .api_key = "other"}), "k");
  EXPECT_EQ(KeyOf({.authorization = "Basic dTpw", .api_key = "k"}), "k") << "a proxy's";
}

TEST(ApiKeyTest, SeveralKeysAreNoticed) {
  for (const Credentials& one :
       {Credentials{}, Credentials{.authorization = "Bearer k"}, Credentials{.api_key = "k"},
        Credentials{.authorization = "Basic dTpw", .api_key = "k"},
        Credentials{.authorization = "bearer  k ", .api_key = "k"}}) {
    EXPECT_FALSE(HasSeveralKeys(one)) << one.authorization << ", " << one.api_key;
  }
  EXPECT_TRUE(HasSeveralKeys({.authorization = "Bearer k", .api_key = "other"}));
  EXPECT_TRUE(HasSeveralKeys({.authorization = "Bearer ", .api_key = "k"}));
  EXPECT_TRUE(HasSeveralKeys({.authorization = "Bearer k", .repeats = true}));
  EXPECT_EQ(KeyOf({.authorization = "Bearerk"}), "");
}

}  // namespace
}  // namespace upscaled::server
