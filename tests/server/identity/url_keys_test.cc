#include "server/identity/url_keys.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/base/url_signature.h"

namespace upscaled::server {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kPath[] = "/v1/upscale";
constexpr char kOptions[] = "url=https%3A%2F%2Fa.example%2Fcat.png&scale=2";
const std::string kSecret(43, 's');
const absl::Time kSignedAt = absl::FromUnixSeconds(1'796'000'000);

std::string KeysJson(const std::string& more = "") {
  return absl::StrCat(R"({"keys": [{"id": "old", "secret": ")", std::string(32, 'o'),
                      R"(", "tenant": "shop"}, {"id": "new", "secret": ")", kSecret,
                      R"(", "tenant": "shop")", more, "}]}");
}

UrlKeyTable Keys(const std::string& more = "") {
  const auto keys = ParseUrlKeys(KeysJson(more), "keys.json");
  EXPECT_TRUE(keys.ok()) << keys.status();
  return keys.value_or(UrlKeyTable());
}

// `query` with the signature of the key "new".
std::string Signed(const std::string& query, const std::string& secret = kSecret) {
  return absl::StrCat(query, "&sig=", UrlSignature(secret, absl::StrCat(kPath, "?", query)));
}

std::string Query(const std::string& tail = "&key=new&expires=1796000060") {
  return Signed(absl::StrCat(kOptions, tail));
}

// Why a URL is refused; "" if it is not.
std::string WhyRefused(const std::string& query, const std::string& path = kPath,
                       const UrlKeyTable& keys = Keys(), absl::Time now = kSignedAt) {
  const auto url = CheckSignedUrl(keys, path, query, now);
  if (url.ok()) return "";
  EXPECT_EQ(url.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ReasonOf(url.status()), ErrorReason::kPermissionDenied);
  EXPECT_THAT(std::string(url.status().message()), Not(HasSubstr(kSecret)));
  return MetadataOf(url.status()).at("signature");
}

TEST(UrlSignatureTest, IsHmacSha256InBase64Url) {
  // RFC 4231, test case 2.
  EXPECT_EQ(UrlSignature("Jefe", "what do ya want for nothing?"),
            "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM");
  EXPECT_EQ(UrlSignature(kSecret, "").size(), kUrlSignatureBytes);
}

TEST(SignedUrlTest, GivesOptionsSignerAndEnd) {
  const std::string query = Query();
  const auto url = CheckSignedUrl(Keys(), kPath, query, kSignedAt);
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->options, kOptions);
  EXPECT_EQ(url->signer->name, "new");
  EXPECT_EQ(url->signer->tenant, "shop");
  EXPECT_TRUE(url->signer->roles.Has(Role::kUpscale));
  EXPECT_FALSE(url->signer->roles.Has(Role::kAdmin));
  EXPECT_EQ(url->expires, kSignedAt + absl::Minutes(1));
  const auto endless = CheckSignedUrl(Keys(), kPath, Query("&key=new"), kSignedAt);
  ASSERT_TRUE(endless.ok()) << endless.status();
  EXPECT_EQ(endless->expires, absl::InfiniteFuture());
}

TEST(SignedUrlTest, RefusesEveryChangedByte) {
  const std::string query = Query();
  EXPECT_EQ(WhyRefused(query), "");
  for (size_t i = 0; i < query.size(); ++i) {
    for (const int bit : {1, 4, 32}) {
      std::string changed = query;
      changed[i] = static_cast<char>(changed[i] ^ bit);
      EXPECT_NE(WhyRefused(changed), "") << changed;
    }
    std::string shorter = query, longer = query;
    EXPECT_NE(WhyRefused(shorter.erase(i, 1)), "") << shorter;
    EXPECT_NE(WhyRefused(longer.insert(i, 1, 'a')), "") << longer;
  }
}

TEST(SignedUrlTest, HasOneSpelling) {
  const std::string query = Query();
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = query;
    const size_t place = text.find(from);
    EXPECT_NE(place, std::string::npos) << from;
    return text.replace(place, from.size(), to);
  };
  for (const std::string& other :
       {replaced("%3A%2F", "%3a%2f"), replaced("%3A", ":"), replaced("a.example", "%61.example"),
        replaced("scale=2", "sc%61le=2"), replaced("scale=2", "scale=+2"),
        replaced("scale=2", "scale=2.0"), replaced("scale=2", "scale=3"), replaced("&scale=2", ""),
        replaced(kOptions, "scale=2&url=https%3A%2F%2Fa.example%2Fcat.png"),
        replaced("&scale", "&&scale"), replaced("&scale=2", "&scale=2&scale=2"),
        replaced("&scale=2", "&scale=2&tta=1"), replaced("&key=new", "&key=new&key=new"),
        replaced("expires=1796000060", "expires=1796000061"),
        replaced("expires=1796000060", "expires=01796000060"), replaced("&expires=1796000060", ""),
        replaced("&key=new&expires=1796000060", "&expires=1796000060&key=new"),
        absl::StrCat("&", query), absl::StrCat("tta=1&", query)}) {
    const std::string why = WhyRefused(other);
    EXPECT_TRUE(why == "wrong" || why == "malformed") << why << " " << other;
  }
  for (const char* path :
       {"/v1/Upscale", "/v1/upscale/", "/v1/%75pscale", "//v1/upscale", "/", ""}) {
    EXPECT_EQ(WhyRefused(query, path), "wrong") << path;
  }
}

TEST(SignedUrlTest, RefusesWhatIsNotSignedInFull) {
  const std::string query = Query(), signature = query.substr(query.size() - kUrlSignatureBytes);
  for (const std::string& other :
       {query + "&x=1", query + "&", query + "=", query + signature, query + "&sig=" + signature,
        query.substr(0, query.size() - 1), query + "A",
        absl::StrCat("sig=", signature, "&", kOptions, "&key=new"),
        absl::StrCat(kOptions, "&sig=", signature), absl::StrCat("sig=", signature),
        std::string("sig="), std::string("&sig="), std::string("sig"), std::string(),
        absl::StrCat(kOptions, "&key=new&si%67=", signature)}) {
    EXPECT_EQ(WhyRefused(other), "malformed") << other;
  }
  EXPECT_TRUE(HasUrlSignature(query) && HasUrlSignature("sig") && HasUrlSignature("a&sig=&b"));
  for (const char* text : {"", "a", "signature=1", "a=sig=", "si%67=a", "asig=1", "SIG=1"}) {
    EXPECT_FALSE(HasUrlSignature(text)) << text;
  }
}

TEST(SignedUrlTest, RefusesWhatOnlyItsSignerCouldWriteWrong) {
  for (const char* end : {"", "x", "1796000060x", "99999999999999999999"}) {
    EXPECT_EQ(WhyRefused(Query(absl::StrCat("&key=new&expires=", end))), "malformed") << end;
  }
  EXPECT_EQ(WhyRefused(Query("&key=new&expires=-1")), "expired");
}

TEST(SignedUrlTest, KnowsKeysAndTheirTimes) {
  EXPECT_EQ(WhyRefused(Query("&key=none")), "unknown_key");
  EXPECT_EQ(WhyRefused(Query("&key=")), "unknown_key");
  EXPECT_EQ(WhyRefused(Query("&key=NEW")), "unknown_key");
  EXPECT_EQ(WhyRefused(Query("&key=old")), "wrong") << "signed by the other key";
  EXPECT_EQ(WhyRefused(Signed(absl::StrCat(kOptions, "&key=old"), std::string(32, 'o'))), "")
      << "both keys sign while they are changed";
  const UrlKeyTable timed =
      Keys(R"(, "not_before": "2026-11-30T00:00:00Z", "expires": "2027-01-01T00:00:00Z")");
  const absl::Time begin = absl::FromUnixSeconds(1'795'996'800);
  const absl::Time end = absl::FromUnixSeconds(1'798'761'600);
  EXPECT_EQ(WhyRefused(Query("&key=new"), kPath, timed, begin - absl::Nanoseconds(1)), "early");
  EXPECT_EQ(WhyRefused(Query("&key=new"), kPath, timed, begin), "");
  EXPECT_EQ(WhyRefused(Query("&key=new"), kPath, timed, end - absl::Nanoseconds(1)), "");
  EXPECT_EQ(WhyRefused(Query("&key=new"), kPath, timed, end), "expired");
  EXPECT_EQ(CheckSignedUrl(timed, kPath, Query("&key=new"), begin)->expires, end);
}

TEST(SignedUrlTest, EndsInTime) {
  EXPECT_EQ(
      WhyRefused(Query(), kPath, Keys(), kSignedAt + absl::Seconds(60) - absl::Nanoseconds(1)), "");
  EXPECT_EQ(WhyRefused(Query(), kPath, Keys(), kSignedAt + absl::Seconds(60)), "expired");
  EXPECT_EQ(WhyRefused(Signed(absl::StrCat(kOptions, "&key=new&expires=1"), std::string(40, 'x'))),
            "wrong")
      << "a forged URL is not told that it is late";
}

TEST(UrlKeysTest, NamesWhatIsWrongInTheFile) {
  const auto error = [](const std::string& text) {
    const auto keys = ParseUrlKeys(text, "keys.json");
    EXPECT_FALSE(keys.ok()) << text;
    return std::string(keys.status().message());
  };
  const auto of_entry = [&](const std::string& entry) {
    return error("{\"keys\": [" + entry + "]}");
  };
  const std::string secret = std::string(32, 'x');
  EXPECT_THAT(error("{"), HasSubstr("keys.json"));
  EXPECT_THAT(error("[]"), HasSubstr("must be an object"));
  EXPECT_THAT(error("{\"keys\": []}"), HasSubstr("0 keys"));
  EXPECT_THAT(error("{\"keys\": [], \"more\": 1}"), HasSubstr("no more"));
  EXPECT_THAT(of_entry("1"), HasSubstr("keys[0]: must be an object"));
  EXPECT_THAT(of_entry("{}"), HasSubstr("has no \"id\""));
  EXPECT_THAT(of_entry(R"({"id": "a b"})"), HasSubstr("\"id\" is \"a b\""));
  EXPECT_THAT(of_entry(R"({"id": "a", "name": "b"})"), HasSubstr("unknown field \"name\""));
  EXPECT_THAT(of_entry(R"({"id": "a", "tenant": "t", "secret": "short"})"),
              HasSubstr("32 to 256 visible characters"));
  EXPECT_THAT(of_entry(R"({"id": "a", "tenant": "t", "secret": ")" + secret + R"(\n"})"),
              HasSubstr("visible"));
  EXPECT_THAT(
      of_entry(R"({"id": "a", "tenant": "t", "secret": ")" + secret + R"(", "expires": "soon"})"),
      HasSubstr("must be a time"));
  const std::string entry = R"({"id": "a", "tenant": "t", "secret": ")" + secret + "\"}";
  EXPECT_THAT(of_entry(entry + "," + entry), HasSubstr("another entry has the id \"a\""));
}

TEST(UrlKeysTest, ReadsItsFileAgain) {
  const std::string file = testing::TempDir() + "/url_keys.json";
  std::ofstream(file) << KeysJson();
  const auto keys = UrlKeys::Load(file);
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ((*keys)->get()->size(), 2u);
  EXPECT_FALSE(*(*keys)->ReloadIfChanged());
  std::ofstream(file) << R"({"keys": [{"id": "only", "secret": ")" + kSecret +
                             R"(", "tenant": "t"}]})";
  EXPECT_TRUE(*(*keys)->ReloadIfChanged());
  EXPECT_TRUE((*keys)->get()->contains("only"));
  std::ofstream(file) << "broken";
  EXPECT_FALSE((*keys)->Reload().ok());
  EXPECT_TRUE((*keys)->get()->contains("only")) << "the old keys stay";
  EXPECT_EQ(UrlKeys::Load("/none").status().code(), absl::StatusCode::kNotFound);
}

TEST(UrlKeysTest, MakesKeysThatTheFileTakes) {
  const auto key = MakeUrlKey("2026-11", "shop");
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_TRUE(absl::StartsWith(key->line, "2026-11:"));
  const auto keys = ParseUrlKeys("{\"keys\": [" + key->entry + "]}", "new");
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ("2026-11:" + keys->at("2026-11").secret, key->line);
  EXPECT_NE(MakeUrlKey("a", "a")->line, MakeUrlKey("a", "a")->line);
  EXPECT_FALSE(MakeUrlKey("a:b", "shop").ok());
}

}  // namespace
}  // namespace upscaled::server
