#include "server/fetch/source_url.h"

#include <string>
#include <vector>

#include <curl/curl.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/fetch/url_prefix.h"

namespace upscaled::server {
namespace {

using testing::HasSubstr;

SourceUrl Url(const std::string& text) {
  const auto url = ParseSourceUrl(text);
  EXPECT_TRUE(url.ok()) << text << ": " << url.status();
  return url.ok() ? *url : SourceUrl();
}

std::string RefusalOf(const std::string& text) {
  const auto url = ParseSourceUrl(text);
  EXPECT_FALSE(url.ok()) << text << " is read as " << (url.ok() ? url->Text() : "");
  return std::string(url.status().message());
}

bool Covers(const std::string& prefix, const std::string& url) {
  const auto parsed = UrlPrefix::Parse(prefix);
  EXPECT_TRUE(parsed.ok()) << prefix << ": " << parsed.status();
  return parsed.ok() && parsed->Covers(Url(url));
}

// The host of `text` as curl reads it; "" if it refuses the text.
std::string CurlsHost(const std::string& text) {
  CURLU* const url = curl_url();
  char* host = nullptr;
  std::string found;
  if (curl_url_set(url, CURLUPART_URL, text.c_str(), 0) == CURLUE_OK &&
      curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK) {
    found = host;
  }
  curl_free(host);
  curl_url_cleanup(url);
  return found;
}

TEST(SourceUrlTest, TakesAUrlApart) {
  const SourceUrl url = Url("HTTPS://Images.Example.COM:8443/a/b%20c.png?x=1&y=%2F#top");
  EXPECT_TRUE(url.tls);
  EXPECT_EQ(url.host, "images.example.com");
  EXPECT_EQ(url.port, 8443);
  EXPECT_EQ(url.path, "/a/b%20c.png");
  EXPECT_EQ(url.query, "?x=1&y=%2F");
  EXPECT_EQ(url.Origin(), "https://images.example.com:8443");
  EXPECT_EQ(url.Text(), "https://images.example.com:8443/a/b%20c.png?x=1&y=%2F");
  EXPECT_EQ(url.Shown(), "https://images.example.com:8443/a/b%20c.png") << "no signature";
  EXPECT_EQ(url.FileName(), "b c.png");
}

TEST(SourceUrlTest, CompletesWhatMayBeLeftOut) {
  EXPECT_EQ(Url("https://a.example").Text(), "https://a.example/");
  EXPECT_EQ(Url("https://a.example:443").Text(), "https://a.example/");
  EXPECT_EQ(Url("http://a.example:80/x").Text(), "http://a.example/x");
  EXPECT_EQ(Url("http://a.example:443/x").Text(), "http://a.example:443/x");
  EXPECT_EQ(Url("https://a.example?q").Text(), "https://a.example/?q");
  EXPECT_EQ(Url("https://a.example#f").Text(), "https://a.example/");
  EXPECT_EQ(Url("https://a.example:0443/").port, 443);
  EXPECT_EQ(Url("https://a.example/").FileName(), "");
}

TEST(SourceUrlTest, KnowsTheHostOnlyWhereItStands) {
  EXPECT_EQ(Url("https://images.example.com.evil.org/").host, "images.example.com.evil.org");
  EXPECT_EQ(Url("https://evil.org/https://images.example.com/").host, "evil.org");
  EXPECT_EQ(Url("https://evil.org?@images.example.com/").host, "evil.org");
  EXPECT_EQ(Url("https://evil.org#@images.example.com/").host, "evil.org");
  EXPECT_EQ(Url("https://evil.org/@images.example.com/").host, "evil.org");
}

TEST(SourceUrlTest, RefusesWhatReadersMayDisagreeAbout) {
  for (const char* text : {"",
                           "a",
                           "images.example.com/a.png",
                           "//images.example.com/a.png",
                           "https:",
                           "https:/",
                           "https://",
                           "https:///a.png",
                           "https:////a.example/",
                           "https:a.example",
                           "https:/a.example",
                           "file:///etc/passwd",
                           "ftp://a.example/",
                           "gopher://a.example/",
                           "data:image/png,",
                           "javascript:1",
                           " https://a.example/",
                           "https://a.example/ ",
                           "https://?q",
                           "https://:443/",
                           "https//a.example",
                           "httpss://a.example/",
                           "https:\\\\a.example\\",
                           "https://a.example\\b",
                           "https://a.example/\t",
                           "https://a.example/a\nb",
                           "https://a.ex\xC3\xA4mple/",
                           "https://a.example/\"",
                           "https://a.example/<b>",
                           "https://a.example/{1,2}",
                           "https://[a.example/",
                           "https://a.example]/",
                           "https://a.example/%",
                           "https://a.example/%2",
                           "https://a.example/%zz",
                           "https://a.example?%0"}) {
    EXPECT_THAT(RefusalOf(text), HasSubstr("must ")) << text;
  }
  EXPECT_FALSE(ParseSourceUrl(std::string_view("https://a.example/\0b", 20)).ok());
  EXPECT_THAT(RefusalOf("https://a.example/" + std::string(5000, 'a')), HasSubstr("4096"));
  EXPECT_THAT(RefusalOf("https://" + std::string(254, 'a')), HasSubstr("253"));
}

TEST(SourceUrlTest, RefusesCredentials) {
  for (const char* text : {"https://images.example.com@evil.org/", "https://user:key@a.example/",
                           "https://@a.example/", "https://a.example:443@evil.org/",
                           "https://a@b@c.example/", "https://a.example:@evil.org/"}) {
    EXPECT_THAT(RefusalOf(text), HasSubstr("credentials")) << text;
  }
}

TEST(SourceUrlTest, RefusesOddHosts) {
  for (const char* text : {"https://a.example./",
                           "https://.a.example/",
                           "https://a..example/",
                           "https://./",
                           "https://a%2eexample/",
                           "https://%61.example/",
                           "https://a.example%2f@evil.org/",
                           "https://a.example%00.evil.org/",
                           "https://a!b/",
                           "https://a,b/",
                           "https://a b/",
                           "https://a.example;b/",
                           "https://*.example/",
                           "https://a.example:/",
                           "https://a.example:0/",
                           "https://a.example:65536/",
                           "https://a.example:99999999999/",
                           "https://a.example:+443/",
                           "https://a.example:-1/",
                           "https://a.example:4 43/",
                           "https://a.example:80:81/",
                           "https://a.example:port/",
                           "https://a.example:0x50/"}) {
    EXPECT_THAT(RefusalOf(text), HasSubstr("must ")) << text;
  }
}

TEST(SourceUrlTest, TakesAddressesInOneFormAlone) {
  EXPECT_EQ(Url("http://127.0.0.1:8000/").host, "127.0.0.1");
  EXPECT_EQ(Url("https://255.255.255.255/").host, "255.255.255.255");
  EXPECT_EQ(Url("https://1.2.3.4.example/").host, "1.2.3.4.example");
  for (const char* host : {"2130706433", "0x7f000001", "0X7F.1", "017700000001", "127.1", "127.0.1",
                           "0177.0.0.1", "127.0.0.01", "0x7f.0.0.1", "1.2.3.4.5", "256.1.1.1",
                           "1.2.3.", "a.1", "0x", "a.0x7f", "0", "127.0.0.1.", "99999999999"}) {
    EXPECT_THAT(RefusalOf("http://" + std::string(host) + "/"), HasSubstr("must ")) << host;
  }
}

TEST(SourceUrlTest, ReadsIpv6AddressesInBrackets) {
  EXPECT_EQ(Url("https://[::1]/").host, "::1");
  EXPECT_EQ(Url("https://[2001:DB8:0:0::0001]:8443/").Origin(), "https://[2001:db8::1]:8443");
  EXPECT_EQ(Url("https://[::ffff:127.0.0.1]/").host, "::ffff:127.0.0.1");
  EXPECT_EQ(Url("https://[::ffff:7f00:1]/").host, "::ffff:127.0.0.1");
  for (const char* text : {"https://::1/", "https://[::1/", "https://::1]/", "https://[]/",
                           "https://[::1]x/", "https://[::1]:/", "https://[fe80::1%25eth0]/",
                           "https://[fe80::1%eth0]/", "https://[v1.a]/", "https://[127.0.0.1]/",
                           "https://[::1].evil.org/", "https://[::1]]/", "https://[:::1]/"}) {
    EXPECT_THAT(RefusalOf(text), HasSubstr("must ")) << text;
  }
}

TEST(SourceUrlTest, RefusesPathsThatAServerMayClimbOutOf) {
  for (const char* path : {"/public/../private",
                           "/public/..",
                           "/..",
                           "/.",
                           "/./a",
                           "/public/./a",
                           "/public/%2e%2e/a",
                           "/public/%2E./a",
                           "/public/.%2e",
                           "/public/%252e%252e/a",
                           "/public/%25252e%25252e/a",
                           "/public/..%2fa",
                           "/public/..%2Fa",
                           "/public%2f..%2fa",
                           "/public%2f%2e%2e%2fa",
                           "/public/..%5ca",
                           "/public/%5c..%5ca",
                           "/public/..;/a",
                           "/public/..;x=1/a",
                           "/public/%2e%2e%3b/a",
                           "/public/..%00/a",
                           "/public/a%00",
                           "/a%0d%0aHost:%20b",
                           "/a%7f"}) {
    EXPECT_THAT(RefusalOf("https://a.example" + std::string(path)), HasSubstr("in its path"))
        << path;
  }
  EXPECT_THAT(RefusalOf("https://a.example/%2525252525252561"), HasSubstr("4 times"));
  for (const char* path : {"/...", "/a..b", "/..a", "/a..", "/.hidden", "/a;b=..", "/a%2fb",
                           "/100%25", "//", "/a//b", "/%C3%A4.png", "/[1].png"}) {
    EXPECT_EQ(Url("https://a.example" + std::string(path)).path, path);
  }
  EXPECT_EQ(Url("https://a.example/?a=../b").query, "?a=../b") << "no path";
}

TEST(SourceUrlTest, IsReadByCurlAsByUs) {
  for (const char* text : {"https://A.example:8443/x?y", "http://127.0.0.1/", "https://[::1]/a",
                           "https://[::ffff:7f00:1]:1/", "https://a_b.example",
                           "https://evil.org#@a", "https://evil.org?@a.example/"}) {
    const SourceUrl url = Url(text);
    const bool ipv6 = url.host.find(':') != std::string::npos;
    EXPECT_EQ(CurlsHost(url.Text()), ipv6 ? "[" + url.host + "]" : url.host) << text;
  }
}

TEST(UrlPrefixTest, CoversAHost) {
  for (const char* prefix : {"https://images.example.com", "https://images.example.com/",
                             "images.example.com", "HTTPS://IMAGES.example.com:443"}) {
    EXPECT_TRUE(Covers(prefix, "https://images.example.com/a/b.png?c"));
    EXPECT_TRUE(Covers(prefix, "https://Images.Example.com:443"));
    for (const char* other :
         {"http://images.example.com/", "https://images.example.com:8443/",
          "https://images.example.com.evil.org/", "https://evilimages.example.com/",
          "https://example.com/", "https://a.images.example.com/",
          "https://evil.org/images.example.com", "http://images.example.com:443/"}) {
      EXPECT_FALSE(Covers(prefix, other)) << prefix << " " << other;
    }
  }
}

TEST(UrlPrefixTest, CoversPathsToTheirSlashes) {
  const std::string host = "https://a.example";
  EXPECT_TRUE(Covers(host + "/public/", host + "/public/"));
  EXPECT_TRUE(Covers(host + "/public/", host + "/public/a/b.png?c"));
  EXPECT_TRUE(Covers(host + "/public", host + "/public/a.png"));
  EXPECT_TRUE(Covers(host + "/public", host + "/public?a"));
  for (const char* path : {"/public", "/publicity", "/Public/a", "//public/a", "/public%2fa",
                           "/%70ublic/a", "/private/public/", "/public;/a", "/"}) {
    EXPECT_FALSE(Covers(host + "/public/", host + path)) << path;
  }
  EXPECT_FALSE(Covers(host + "/public", host + "/publicity"));
  EXPECT_FALSE(Covers(host + "/public", host + "/public%2fa"));
}

TEST(UrlPrefixTest, AllowsHttpOnlyWhereItSaysSo) {
  EXPECT_TRUE(Covers("http://a.example:9000/b", "http://a.example:9000/b/c"));
  EXPECT_FALSE(Covers("http://a.example:9000/b", "https://a.example:9000/b/c"));
  EXPECT_FALSE(Covers("a.example", "http://a.example/"));
  EXPECT_TRUE(Covers("[::1]:8443", "https://[0:0::1]:8443/x"));
}

TEST(UrlPrefixTest, RefusesWhatIsNoPrefix) {
  for (const char* text : {"", "/", "https://", "*", "https://*.example.com/", "ftp://a.example/",
                           "https://a.example/?", "https://a.example/#", "https://user@a.example/",
                           "https://a.example/../", "a b", "a.example."}) {
    const auto prefix = UrlPrefix::Parse(text);
    ASSERT_FALSE(prefix.ok()) << text;
    EXPECT_THAT(std::string(prefix.status().message()), HasSubstr("must ")) << text;
  }
  EXPECT_THAT(std::string(ParseUrlPrefixes({"a.example", "*"}).status().message()),
              HasSubstr("\"*\" must "));
}

}  // namespace
}  // namespace upscaled::server
