#include "server/net/trusted_proxies.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace upscaled::server {
namespace {

TrustedProxies Trust(const std::vector<std::string>& texts) {
  std::vector<AddressPrefix> prefixes;
  for (const std::string& text : texts) prefixes.push_back(ParseAddressPrefix(text).value());
  return TrustedProxies(prefixes);
}

const PeerAddress kProxy{"ipv4:10.0.0.1:40000", "10.0.0.1"};
const PeerAddress kProxy6{"ipv6:[2001:db8::1]:40000", "2001:db8::/64"};
const PeerAddress kStranger{"ipv4:192.0.2.7:40000", "192.0.2.7"};
const PeerAddress kUnix{"unix:33:1234", "unix:33"};

TEST(TrustedProxiesTest, TakesTheLastAddressThatNoProxyHas) {
  const TrustedProxies proxies = Trust({"10.0.0.0/8", "2001:db8::/32"});
  const auto of = [&](const char* field) { return proxies.ClientOf(kProxy, field, ""); };
  EXPECT_EQ(of("203.0.113.5"), "203.0.113.5");
  EXPECT_EQ(of("203.0.113.5:1234"), "203.0.113.5");
  EXPECT_EQ(of("1.1.1.1, 203.0.113.5"), "203.0.113.5") << "the first is the client's own word";
  EXPECT_EQ(of("203.0.113.5, 10.2.3.4,10.9.9.9 "), "203.0.113.5");
  EXPECT_EQ(of("10.2.3.4"), "10.2.3.4") << "a client within the network";
  EXPECT_EQ(of("2a00:1:2:3:4::5"), "2a00:1:2:3::/64");
  EXPECT_EQ(of("[2a00:1:2:3:4::5]:80"), "2a00:1:2:3::/64");
  EXPECT_EQ(of("::ffff:203.0.113.5"), "203.0.113.5");
  EXPECT_EQ(of("203.0.113.5, 2001:db8:7::1"), "203.0.113.5");
  EXPECT_EQ(proxies.ClientOf(kProxy6, "203.0.113.5", ""), "203.0.113.5");
}

TEST(TrustedProxiesTest, ReadsForwardedWithoutTheOther) {
  const TrustedProxies proxies = Trust({"10.0.0.1"});
  const auto of = [&](const char* field) { return proxies.ClientOf(kProxy, "", field); };
  EXPECT_EQ(of("for=203.0.113.5"), "203.0.113.5");
  EXPECT_EQ(of("for=1.1.1.1, by=x;For=\"203.0.113.5:99\";proto=https"), "203.0.113.5");
  EXPECT_EQ(of("for=\"[2a00:1:2:3:4::5]:99\""), "2a00:1:2:3::/64");
  EXPECT_EQ(proxies.ClientOf(kProxy, "203.0.113.5", "for=1.1.1.1"), "203.0.113.5");
}

TEST(TrustedProxiesTest, GoesNoFurtherThanItCanRead) {
  const TrustedProxies proxies = Trust({"10.0.0.0/8"});
  for (const char* field : {"", "unknown", "for=_hidden", "1.1.1.1, junk", ",", "1.2.3", "::g"}) {
    EXPECT_EQ(proxies.ClientOf(kProxy, field, field), "10.0.0.1") << field;
  }
  EXPECT_EQ(proxies.ClientOf(kProxy, "1.1.1.1, unknown, 10.3.3.3", ""), "10.3.3.3");
}

TEST(TrustedProxiesTest, BelievesNobodyElse) {
  const TrustedProxies proxies = Trust({"10.0.0.1", "2001:db8::1"});
  EXPECT_EQ(proxies.ClientOf(kStranger, "203.0.113.5", "for=203.0.113.5"), "192.0.2.7");
  EXPECT_EQ(proxies.ClientOf(kUnix, "203.0.113.5", ""), "unix:33");
  EXPECT_EQ(TrustedProxies().ClientOf(kProxy, "203.0.113.5", ""), "10.0.0.1");
  EXPECT_EQ(proxies.ClientOf({"ipv6:[2001:db8::2]:1", "2001:db8::/64"}, "203.0.113.5", ""),
            "2001:db8::/64");
  EXPECT_EQ(Trust({"unix"}).ClientOf(kUnix, "203.0.113.5", ""), "203.0.113.5");
  EXPECT_EQ(Trust({"unix"}).ClientOf(kProxy, "203.0.113.5", ""), "10.0.0.1");
}

TEST(AddressPrefixTest, CountsBits) {
  const auto contains = [](const std::string& prefix, const char* address) {
    return ParseAddressPrefix(prefix)->Contains(*ParseIpAddress(address));
  };
  EXPECT_TRUE(contains("192.0.2.128/25", "192.0.2.200"));
  EXPECT_FALSE(contains("192.0.2.128/25", "192.0.2.100"));
  EXPECT_TRUE(contains("0.0.0.0/0", "255.1.2.3"));
  EXPECT_FALSE(contains("0.0.0.0/0", "2001:db8::1"));
  EXPECT_TRUE(contains("::/0", "2001:db8::1"));
  EXPECT_TRUE(contains("192.0.2.1", "::ffff:192.0.2.1"));
  EXPECT_FALSE(contains("2001:db8::/127", "2001:db8::2"));
  EXPECT_FALSE(ParseAddressPrefix("unix")->Contains({}));
  for (const char* text : {"", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "10.0.0.0/-1",
                           "10.0.0.0/8/8", "example.org", "Unix", "*"}) {
    EXPECT_FALSE(ParseAddressPrefix(text).ok()) << text;
  }
}

}  // namespace
}  // namespace upscaled::server
