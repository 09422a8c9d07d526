#include "server/identity/key_file.h"

#include <string>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;

std::string HashText(char digit) { return std::string(64, digit); }

// An entry with `more` behind its name and hash.
std::string Entry(const std::string& name, char digit,
                  const std::string& more = R"("tenant": "shop", "roles": ["upscale"])") {
  return absl::StrCat(R"({"name": ")", name, R"(", "sha256": ")", HashText(digit), R"(", )", more,
                      "}");
}

std::string File(const std::string& entries) { return "{\"keys\": [" + entries + "]}"; }

std::string Refusal(const std::string& text) {
  const auto table = ParseKeyFile(text, "keys.json");
  EXPECT_FALSE(table.ok()) << text;
  return std::string(table.status().message());
}

TEST(KeyFileTest, HoldsWhatItSays) {
  const auto parsed = ParseKeyFile(
      File(Entry("shop-1", 'a',
                 R"("tenant": "shop", "roles": ["upscale"], "not_before": "2026-12-01T00:00:00Z",
                    "expires": "2027-12-01T01:00:00+01:00")") +
           "," + Entry("shop-2", 'b') + "," +
           Entry("ops", 'c', R"("tenant": "us", "roles": ["read", "admin"])")),
      "keys.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const KeyTable* const table = &parsed->keys;
  ASSERT_EQ(table->size(), 3u);
  const KeyEntry& first = table->at(*ParseKeyHash(HashText('a')));
  EXPECT_EQ(first.principal.name, "shop-1");
  EXPECT_EQ(first.principal.tenant, "shop");
  EXPECT_TRUE(first.principal.roles.Has(Role::kUpscale));
  EXPECT_FALSE(first.principal.roles.Has(Role::kAdmin));
  EXPECT_EQ(absl::FormatTime(first.not_before, absl::UTCTimeZone()), "2026-12-01T00:00:00+00:00");
  EXPECT_EQ(absl::FormatTime(first.expires, absl::UTCTimeZone()), "2027-12-01T00:00:00+00:00");
  const KeyEntry& second = table->at(*ParseKeyHash(HashText('b')));
  EXPECT_EQ(second.principal.tenant, "shop") << "a tenant may have several keys";
  EXPECT_EQ(second.expires, absl::InfiniteFuture());
  EXPECT_TRUE(table->at(*ParseKeyHash(HashText('c'))).principal.roles.Has(Role::kUpscale));
}

TEST(KeyFileTest, MayBeEmpty) { EXPECT_TRUE(ParseKeyFile(File(""), "keys.json")->keys.empty()); }

TEST(KeyFileTest, RolesImplyLesserOnes) {
  EXPECT_FALSE(RoleSet{Role::kRead}.Has(Role::kUpscale));
  EXPECT_TRUE(RoleSet{Role::kUpscale}.Has(Role::kRead));
  EXPECT_FALSE(RoleSet{Role::kUpscale}.Has(Role::kAdmin));
  EXPECT_TRUE(RoleSet{Role::kAdmin}.Has(Role::kUpscale));
  EXPECT_FALSE(RoleSet().Has(Role::kRead));
}

TEST(KeyFileTest, TenantsHaveLimits) {
  const auto file = ParseKeyFile(
      absl::StrCat(R"({"keys": [)", Entry("shop-1", 'a'), ",", Entry("shop-2", 'b'), ",",
                   Entry("ops", 'c', R"("tenant": "us", "roles": ["admin"])"), R"(], "tenants": {
          "shop": {"calls": 20, "queue_pixels": 40000000, "pixels_per_second": 2000000,
                   "bytes_per_second": 1000000000000, "call_seconds": 1.5,
                   "priority": "background", "weight": 0.5},
          "later": {}}})"),
      "keys.json");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto limits = file->keys.at(*ParseKeyHash(HashText('a'))).principal.limits;
  ASSERT_NE(limits, nullptr);
  EXPECT_EQ(limits->tenant, "shop");
  EXPECT_EQ(limits->max_calls, 20);
  EXPECT_EQ(limits->max_queue_pixels, 40'000'000);
  EXPECT_EQ(limits->pixels_per_second, 2'000'000);
  EXPECT_EQ(limits->bytes_per_second, 1'000'000'000'000);
  EXPECT_EQ(limits->max_call_time, absl::Milliseconds(1500));
  EXPECT_EQ(limits->priority, Priority::kBackground);
  EXPECT_EQ(limits->weight, 0.5);
  EXPECT_EQ(file->keys.at(*ParseKeyHash(HashText('b'))).principal.limits, limits);
  EXPECT_EQ(file->keys.at(*ParseKeyHash(HashText('c'))).principal.limits, nullptr);
  const TenantLimits& later = *file->tenants.at("later");
  EXPECT_EQ(later.max_calls, TenantLimits::kNone);
  EXPECT_EQ(later.max_call_time, absl::InfiniteDuration());
  EXPECT_EQ(later.priority, Priority::kInteractive);
}

TEST(KeyFileTest, NamesTheTenantAndWhatIsWrongWithIt) {
  const auto refusal = [](const std::string& tenants) {
    return Refusal(R"({"keys": [], "tenants": )" + tenants + "}");
  };
  const auto field = [&](const std::string& text) {
    return refusal(R"({"shop": {)" + text + "}}");
  };
  EXPECT_THAT(refusal("[]"), HasSubstr("keys.json: \"tenants\" must be an object"));
  EXPECT_THAT(refusal(R"({"a b": {}})"), HasSubstr("tenants[\"a b\"]: \"name\" is \"a b\""));
  EXPECT_THAT(refusal(R"({"shop": 3})"), HasSubstr("tenants[\"shop\"]: must be an object"));
  EXPECT_THAT(field(R"("call": 3)"), HasSubstr("has the unknown field \"call\""));
  for (const char* name : {"calls", "queue_pixels", "pixels_per_second", "bytes_per_second"}) {
    for (const char* value : {"0", "-1", "1.5", "\"1\"", "1000000000001", "1e30", "null"}) {
      EXPECT_THAT(field(absl::StrCat("\"", name, "\": ", value)),
                  HasSubstr(absl::StrCat("tenants[\"shop\"]: \"", name,
                                         "\" must be a whole number from 1 to 1000000000000")));
    }
  }
  EXPECT_THAT(field(R"("call_seconds": 0.5)"), HasSubstr("must be a number from 1 to 1e+06"));
  EXPECT_THAT(field(R"("weight": 0)"), HasSubstr("must be a number from 0.01 to 100"));
  EXPECT_THAT(field(R"("weight": "heavy")"), HasSubstr("must be a number from 0.01 to 100"));
  EXPECT_THAT(field(R"("priority": "high")"),
              HasSubstr("\"priority\" is \"high\"; there are interactive and background"));
  std::string many = R"("t": {})";
  for (int i = 0; i < 10'000; ++i) absl::StrAppend(&many, ", \"t", i, "\": {}");
  EXPECT_THAT(refusal("{" + many + "}"), HasSubstr("has 10001 tenants; at most 10000"));
}

TEST(KeyFileTest, RefusesFilesOfAnotherForm) {
  for (const std::string& text :
       {std::string(), std::string("["), std::string("[]"), std::string("{}"),
        std::string(R"({"keys": {}})"), std::string(R"({"keys": [], "more": 1})")}) {
    EXPECT_THAT(Refusal(text), HasSubstr("keys.json: "));
  }
  EXPECT_THAT(Refusal(std::string(kMaxKeyFileBytes + 1, ' ')), HasSubstr("larger than"));
  EXPECT_THAT(Refusal(R"({"keys": [], "keys": []})"), HasSubstr("\"keys\" is given twice"));
  std::string many = Entry("a", 'a');
  for (size_t i = 0; i < kMaxKeys; ++i) many += ",1";
  EXPECT_THAT(Refusal(File(many)), HasSubstr("has 10001 keys; at most 10000"));
}

TEST(KeyFileTest, NamesEntryAndCause) {
  const auto refusal = [](const std::string& more) {
    return Refusal(File(Entry("good", 'a') + "," + Entry("bad", 'b', more)));
  };
  const std::string tenant = R"("tenant": "t", )", roles = R"("roles": ["read"])";
  EXPECT_THAT(refusal(roles), HasSubstr("keys.json: keys[1] (\"bad\"): has no \"tenant\""));
  EXPECT_THAT(refusal(tenant + roles + R"(, "role": "x")"), HasSubstr("unknown field \"role\""));
  EXPECT_THAT(refusal(tenant + roles + R"(, "tenant": "u")"),
              HasSubstr("\"tenant\" is given twice"));
  EXPECT_THAT(refusal(tenant + R"("roles": [])"), HasSubstr("at least one of"));
  EXPECT_THAT(refusal(tenant + R"("roles": ["root"])"), HasSubstr("has \"root\"; there are"));
  EXPECT_THAT(refusal(tenant + R"("roles": [1])"), HasSubstr("has no text"));
  EXPECT_THAT(refusal(R"("tenant": "a b", )" + roles), HasSubstr("\"a b\"; it must be 1 to 64"));
  EXPECT_THAT(refusal(R"("tenant": 7, )" + roles), HasSubstr("\"tenant\" must be a text"));
  for (const char* time : {"tomorrow", "2026-12-01", "infinite-future", ""}) {
    EXPECT_THAT(refusal(tenant + roles + R"(, "expires": ")" + time + "\""),
                HasSubstr("must be a time like"));
  }
  EXPECT_THAT(
      refusal(tenant + roles +
              R"(, "expires": "2026-01-01T00:00:00Z", "not_before": "2026-01-01T00:00:00Z")"),
      HasSubstr("must be later"));
  EXPECT_THAT(Refusal(File("7")), HasSubstr("keys[0]: must be an object"));
}

TEST(KeyFileTest, MayNameAnIssuerOfTokens) {
  const std::string rules = R"("issuer": "us", "audience": "here", "key_set": "jwks.json")";
  const auto file = ParseKeyFile("{\"tokens\": {" + rules + "}}", "keys.json");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->keys.empty());
  EXPECT_EQ(file->tokens->issuer, "us");
  EXPECT_EQ(file->tokens->key_set, "jwks.json");
  EXPECT_EQ(file->tokens->tenant_claim, "tenant");
  EXPECT_EQ(file->tokens->roles_claim, "roles");
  const auto refusal = [](const std::string& entry) {
    return Refusal("{\"keys\": [], \"tokens\": " + entry + "}");
  };
  EXPECT_THAT(refusal("[]"), HasSubstr("keys.json: tokens: must be an object"));
  EXPECT_THAT(refusal("{" + rules + R"(, "leeway": 1})"), HasSubstr("unknown field \"leeway\""));
  EXPECT_THAT(refusal("{" + rules + R"(, "tenant_claim": ""})"), HasSubstr("is empty"));
  EXPECT_THAT(refusal(R"({"audience": "here", "key_set": "k"})"), HasSubstr("has no \"issuer\""));
  EXPECT_THAT(refusal(R"({"issuer": "us", "audience": "", "key_set": "k"})"),
              HasSubstr("\"audience\" is empty"));
}

TEST(KeyFileTest, CertificatesHaveHoldersToo) {
  const auto entry = [](const std::string& name, const std::string& san) {
    return absl::StrCat(R"({"name": ")", name, R"(", "san": ")", san,
                        R"(", "tenant": "shop", "roles": ["upscale"]})");
  };
  const auto file_of = [](const std::string& entries) {
    return absl::StrCat(R"({"keys": [)", Entry("key", 'a'), R"(], "certificates": [)", entries,
                        R"(], "tenants": {"shop": {"weight": 3}}})");
  };
  const auto file = ParseKeyFile(file_of(entry("host", "DNS:Worker.example.org") + "," +
                                         entry("uri", "URI:spiffe://Example.org/shop")),
                                 "keys.json");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->certificates.size(), 2u);
  const KeyEntry& host = file->certificates.at("DNS:worker.example.org");
  EXPECT_EQ(host.principal.name, "host");
  EXPECT_EQ(host.principal.limits->weight, 3);
  EXPECT_TRUE(file->certificates.contains("URI:spiffe://Example.org/shop"));
  for (const char* san : {"", "DNS:", "worker", "IP:127.0.0.1", "dns:a", "DNS:*.example.org",
                          "DNS:a b", "email:a@example.org"}) {
    EXPECT_THAT(Refusal(file_of(entry("a", san))), HasSubstr("; it must be like DNS:")) << san;
  }
  EXPECT_THAT(Refusal(file_of(entry("a", "DNS:x") + "," + entry("b", "DNS:X"))),
              HasSubstr("certificates[1] (\"b\"): another entry has this \"san\""));
  EXPECT_THAT(Refusal(file_of(entry("key", "DNS:x"))),
              HasSubstr("certificates[0] (\"key\"): another entry has this name"));
  EXPECT_THAT(Refusal(R"({"certificates": {}})"), HasSubstr("\"certificates\" must be a list"));
}

TEST(KeyFileTest, RefusesDuplicates) {
  EXPECT_THAT(Refusal(File(Entry("a", 'a') + "," + Entry("a", 'b'))),
              HasSubstr("keys[1] (\"a\"): another entry has this name"));
  EXPECT_THAT(Refusal(File(Entry("a", 'a') + "," + Entry("b", 'a'))),
              HasSubstr("another entry has this \"sha256\""));
}

TEST(KeyFileTest, ShowsNoKeyThatStandsForItsHash) {
  const std::string key = "upk_0123456789012345678901234567890123456789012";
  const std::string entry =
      R"({"name": "a", "tenant": "t", "roles": ["read"], "sha256": ")" + key + "\"";
  for (const std::string& text : {File(entry + "}"), File(entry), File(key)}) {
    EXPECT_THAT(Refusal(text), testing::Not(HasSubstr("0123")));
  }
}

TEST(KeyFileTest, ReadsItsOwnEntries) {
  const Principal principal{.name = "a", .tenant = "t", .roles = {Role::kUpscale}};
  const auto parsed =
      ParseKeyFile(File(FormatKeyEntry(principal, *ParseKeyHash(HashText('a')))), "keys.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const KeyTable* const table = &parsed->keys;
  EXPECT_TRUE(table->begin()->second.principal.roles.Has(Role::kUpscale));
  EXPECT_FALSE(table->begin()->second.principal.roles.Has(Role::kAdmin));
}

}  // namespace
}  // namespace upscaled::server
